// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/runtime"
)

// copyChart returns a copy that Helm may change: it switches subcharts off,
// renames them and merges their values in place. Files are shared, since they
// are only read.
func copyChart(c *chart.Chart) *chart.Chart {
	out := &chart.Chart{
		Raw:       c.Raw,
		Lock:      c.Lock,
		Templates: c.Templates,
		Values:    copyValues(c.Values),
		Schema:    c.Schema,
		Files:     c.Files,
	}
	if c.Metadata != nil {
		md := *c.Metadata
		md.Dependencies = make([]*chart.Dependency, 0, len(c.Metadata.Dependencies))
		for _, d := range c.Metadata.Dependencies {
			dep := *d
			md.Dependencies = append(md.Dependencies, &dep)
		}
		out.Metadata = &md
	}
	for _, d := range c.Dependencies() {
		out.AddDependency(copyChart(d))
	}
	return out
}

// slimChart returns what of a chart is worth storing with a release: rollback
// needs only the manifest, people ask for metadata and default values.
func slimChart(c *chart.Chart) *chart.Chart {
	if c == nil {
		return nil
	}
	return &chart.Chart{Metadata: c.Metadata, Lock: c.Lock, Values: c.Values}
}

// literalChart returns a chart that renders to exactly the given files, for
// Helm's actions to release what was rendered before: once, and nothing else.
func literalChart(c *chart.Chart, files map[string]string) *chart.Chart {
	out := slimChart(c)
	md := *c.Metadata
	md.Dependencies = nil
	out.Metadata = &md
	prefix := c.Name() + "/"
	for name, content := range files {
		out.Templates = append(out.Templates, &chart.File{
			Name: strings.TrimPrefix(name, prefix),
			Data: []byte(escapeTemplate(content)),
		})
	}
	return out
}

// escapeTemplate makes the template engine print the text as it stands.
func escapeTemplate(s string) string {
	return strings.ReplaceAll(s, "{{", `{{"{{"}}`)
}

// copyValues copies a tree of values; numbers keep their type.
func copyValues(v map[string]any) map[string]any {
	if v == nil {
		return map[string]any{}
	}
	out := make(map[string]any, len(v))
	for k, e := range v {
		out[k] = copyValue(e)
	}
	return out
}

func copyValue(v any) any {
	switch x := v.(type) {
	case map[string]any:
		return copyValues(x)
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = copyValue(e)
		}
		return out
	case runtime.Object:
		return x.DeepCopyObject()
	default:
		return v
	}
}
