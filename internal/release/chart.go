// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
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
