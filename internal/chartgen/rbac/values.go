// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
)

// valuePath leads to a value: names of fields and, in lists, indexes.
type valuePath []any

func (p valuePath) String() string {
	var b strings.Builder
	for i, step := range p {
		switch s := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", s)
		case string:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s)
		}
	}
	return b.String()
}

// fields returns the path as far as a values file can be told it: dots part fields.
func fields(dotted string) valuePath {
	var p valuePath
	for field := range strings.SplitSeq(dotted, ".") {
		p = append(p, field)
	}
	return p
}

func (p valuePath) join(more ...any) valuePath { return append(slices.Clone(p), more...) }

// toggle is a boolean of the values.
type toggle struct {
	path valuePath
	on   bool
}

// toggles returns the booleans that values for the chart may set, sorted: those
// of its values and its subcharts', those that a schema declares, and the conditions
// and tags of dependencies. What nothing sets is off.
func toggles(c *chart.Chart, values map[string]any) []toggle {
	effective := merge(defaults(c), values)
	found := map[string]toggle{}
	booleans(effective, nil, func(p valuePath, on bool) { found[p.String()] = toggle{p, on} })
	declared(c, nil, func(p valuePath) {
		if _, is := lookUp(effective, p); !is {
			found[p.String()] = toggle{p, false}
		}
	})
	return slices.SortedFunc(maps.Values(found), func(a, b toggle) int { return cmp.Compare(a.path.String(), b.path.String()) })
}

// defaults are the chart's values with those of its subcharts below them.
func defaults(c *chart.Chart) map[string]any {
	out := map[string]any{}
	eachSubchart(c, func(sub *chart.Chart, key string) {
		below, _ := out[key].(map[string]any)
		out[key] = merge(below, defaults(sub))
	})
	return merge(out, c.Values)
}

// eachSubchart calls f with every subchart and the field of the values that is the subchart's own.
func eachSubchart(c *chart.Chart, f func(sub *chart.Chart, key string)) {
	for _, sub := range c.Dependencies() {
		named := false
		for _, d := range c.Metadata.Dependencies {
			if d.Name == sub.Name() && d.Alias != "" {
				f(sub, d.Alias)
				named = true
			}
		}
		if !named {
			f(sub, sub.Name())
		}
	}
}

// merge puts over over values; neither is changed. Nothing takes a value away.
func merge(values, over map[string]any) map[string]any {
	out := make(map[string]any, len(values)+len(over))
	maps.Copy(out, values)
	for k, v := range over {
		above, isMap := v.(map[string]any)
		below, both := out[k].(map[string]any)
		switch {
		case isMap && both:
			out[k] = merge(below, above)
		case v != nil || out[k] == nil:
			out[k] = v
		}
	}
	return out
}

func booleans(v any, at valuePath, f func(valuePath, bool)) {
	switch x := v.(type) {
	case bool:
		f(at, x)
	case map[string]any:
		for key, e := range x {
			booleans(e, at.join(key), f)
		}
	case []any:
		for i, e := range x {
			booleans(e, at.join(i), f)
		}
	}
}

// declared calls f with the booleans that a schema, a condition or a tag names.
func declared(c *chart.Chart, at valuePath, f func(valuePath)) {
	var schema map[string]any
	if json.Unmarshal(c.Schema, &schema) == nil {
		schemaBooleans(schema, schema, at, 0, f)
	}
	for _, d := range c.Metadata.Dependencies {
		for condition := range strings.SplitSeq(d.Condition, ",") {
			if condition = strings.TrimSpace(condition); condition != "" {
				f(at.join(fields(condition)...))
			}
		}
		for _, tag := range d.Tags {
			f(at.join("tags", tag))
		}
	}
	eachSubchart(c, func(sub *chart.Chart, key string) { declared(sub, at.join(key), f) })
}

// maxSchemaDepth bounds schemas that hold themselves.
const maxSchemaDepth = 12

func schemaBooleans(root, schema map[string]any, at valuePath, depth int, f func(valuePath)) {
	if depth > maxSchemaDepth {
		return
	}
	if ref, ok := schema["$ref"].(string); ok && strings.HasPrefix(ref, "#/") {
		var target any = root
		for step := range strings.SplitSeq(ref[2:], "/") {
			m, _ := target.(map[string]any)
			target = m[step]
		}
		if m, ok := target.(map[string]any); ok {
			schemaBooleans(root, m, at, depth+1, f)
		}
	}
	switch t := schema["type"].(type) {
	case string:
		if t == "boolean" && len(at) > 0 {
			f(at)
		}
	case []any:
		if slices.Contains(t, any("boolean")) && len(at) > 0 {
			f(at)
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := schema[key].([]any)
		for _, one := range list {
			if m, ok := one.(map[string]any); ok {
				schemaBooleans(root, m, at, depth+1, f)
			}
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		if m, ok := property.(map[string]any); ok {
			schemaBooleans(root, m, at.join(name), depth+1, f)
		}
	}
}

func lookUp(v any, p valuePath) (any, bool) {
	for _, step := range p {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			e, ok := m[s]
			if !ok {
				return nil, false
			}
			v = e
		case int:
			list, _ := v.([]any)
			if s >= len(list) {
				return nil, false
			}
			v = list[s]
		}
	}
	return v, true
}

// with returns the user's values with one of them changed. full holds what
// there is besides: a list is set as a whole, so the rest of it comes from there.
func with(values, full map[string]any, p valuePath, value any) map[string]any {
	out, _ := put(values, full, p, value).(map[string]any)
	return out
}

func put(have, full any, p valuePath, value any) any {
	if len(p) == 0 {
		return value
	}
	switch step := p[0].(type) {
	case int:
		list, ok := have.([]any)
		if !ok {
			list, _ = full.([]any)
		}
		out := slices.Clone(list)
		if step < len(out) {
			out[step] = put(out[step], out[step], p[1:], value)
		}
		return out
	case string:
		m, _ := have.(map[string]any)
		all, _ := full.(map[string]any)
		out := maps.Clone(m)
		if out == nil {
			out = map[string]any{}
		}
		out[step] = put(out[step], all[step], p[1:], value)
		return out
	}
	return have
}

// copyChart returns a copy that Helm may change: it switches subcharts off,
// renames them and merges their values in place.
func copyChart(c *chart.Chart) *chart.Chart {
	out := *c
	out.Values = copyTree(c.Values)
	out.SetDependencies()
	md := *c.Metadata
	md.Dependencies = nil
	for _, d := range c.Metadata.Dependencies {
		dep := *d
		md.Dependencies = append(md.Dependencies, &dep)
	}
	out.Metadata = &md
	for _, sub := range c.Dependencies() {
		out.AddDependency(copyChart(sub))
	}
	return &out
}

func copyTree(values map[string]any) map[string]any {
	out := make(map[string]any, len(values))
	for k, v := range values {
		out[k] = copyValue(v)
	}
	return out
}

func copyValue(v any) any {
	switch x := v.(type) {
	case map[string]any:
		return copyTree(x)
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = copyValue(e)
		}
		return out
	default:
		return v
	}
}
