// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"encoding/json"
	"fmt"
	"maps"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	sigsyaml "sigs.k8s.io/yaml"
)

const (
	valuesFile = "values.yaml"
	schemaFile = "values.schema.json"
)

// rawFile is a file of a chart as it is on disk.
func rawFile(chrt *chart.Chart, name string) []byte {
	for _, f := range chrt.Raw {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// ownValues are the values of the chart's own values.yaml, with numbers as they
// are written where the file is at hand.
func ownValues(chrt *chart.Chart) map[string]any {
	if data := rawFile(chrt, valuesFile); data != nil {
		var values map[string]any
		exact := func(d *json.Decoder) *json.Decoder {
			d.UseNumber()
			return d
		}
		if err := sigsyaml.Unmarshal(data, &values, exact); err == nil {
			return values
		}
	}
	return chrt.Values
}

// suppliedValues are all values that the chart supplies by itself: those of
// values.yaml, and under the names of its subcharts those of theirs.
func suppliedValues(chrt *chart.Chart) map[string]any {
	values := maps.Clone(ownValues(chrt))
	if values == nil {
		values = map[string]any{}
	}
	loaded := map[string]*chart.Chart{}
	for _, sub := range chrt.Dependencies() {
		loaded[sub.Name()] = sub
	}
	names := map[string]*chart.Chart{}
	maps.Copy(names, loaded)
	for _, dep := range chrt.Metadata.Dependencies {
		if sub := loaded[dep.Name]; sub != nil && dep.Alias != "" {
			names[dep.Alias] = sub
		}
	}
	for _, name := range sortedKeys(names) {
		below := suppliedValues(names[name])
		if own, ok := values[name].(map[string]any); ok {
			below = chartutil.CoalesceTables(deepCopy(own), below)
		} else if values[name] != nil {
			continue
		}
		values[name] = below
	}
	return values
}

func deepCopy(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for key, value := range m {
		if inner, ok := value.(map[string]any); ok {
			value = deepCopy(inner)
		}
		out[key] = value
	}
	return out
}

// CheckReservedKeys refuses a chart whose values have a top-level key of the name
// of one of Chartgate's own spec fields: such a value could never be set.
// It does not apply to values that live below the spec (see Options.ValuesPath).
// chartPath names the chart in the error; it may be empty.
func CheckReservedKeys(chrt *chart.Chart, chartPath string) error {
	for _, key := range sortedKeys(ownValues(chrt)) {
		if isReserved(key) {
			return reservedError(fileName(chrt, chartPath, valuesFile), keyLine(rawFile(chrt, valuesFile), key), key)
		}
	}
	if chrt.Schema == nil {
		return nil
	}
	doc, err := parseDocument(fileName(chrt, chartPath, schemaFile), chrt.Schema)
	if err != nil {
		return err
	}
	c := newConverter(newParser(doc), DefaultsNone)
	return c.checkReserved(c.settle([]located{{schema: c.parser.at("")}}))
}

func (c *converter) checkReserved(root *flat) error {
	for _, name := range sortedKeys(root.props) {
		if isReserved(name) {
			return reservedError(c.parser.doc.file, c.parser.doc.line(root.props[name][0].ptr), name)
		}
	}
	return nil
}

func reservedError(file string, line int, key string) error {
	if line > 0 {
		file = fmt.Sprintf("%s:%d", file, line)
	}
	return fmt.Errorf("%s: the key %q is taken by Chartgate's own spec.%s: keep the values apart with valuesPath: spec.values in the watch, and --values-path spec.values for chartgen", file, key, key)
}

// keyLine is the line of a top-level key in a YAML file, or 0.
func keyLine(data []byte, key string) int {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil || len(root.Content) == 0 {
		return 0
	}
	pairs := root.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i].Value == key {
			return pairs[i].Line
		}
	}
	return 0
}

// fileName names a file of a chart in messages.
func fileName(chrt *chart.Chart, chartPath, file string) string {
	if chartPath == "" {
		chartPath = "chart " + chrt.Name()
		return chartPath + ": " + file
	}
	return chartPath + "/" + file
}

// undeclared adds, as open fields, the top-level values that the schema does
// not list, so that they can be explained.
func undeclared(chrt *chart.Chart, values map[string]any, out *props) {
	subcharts := map[string]string{}
	for _, dep := range chrt.Metadata.Dependencies {
		subcharts[dep.Name] = dep.Name
		if dep.Alias != "" {
			subcharts[dep.Alias] = dep.Name
		}
	}
	for _, key := range sortedKeys(values) {
		if _, ok := out.Properties[key]; ok {
			continue
		}
		field := open(true)
		switch value := values[key]; {
		case subcharts[key] != "":
			field.Description = fmt.Sprintf("Values of the subchart %s.", subcharts[key])
		case value == nil:
			field.Description = "Value of the chart."
		default:
			field.Description = sentence(fmt.Sprintf("Value of the chart, %s in %s.", withArticle(typeName(value)), valuesFile), defaultRemark(value))
		}
		if out.Properties == nil {
			out.Properties = map[string]props{}
		}
		out.Properties[key] = field
	}
}

func withArticle(noun string) string {
	switch noun[0] {
	case 'a', 'e', 'i', 'o', 'u':
		return "an " + noun
	default:
		return "a " + noun
	}
}
