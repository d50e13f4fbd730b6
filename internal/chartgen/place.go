// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"maps"
	"slices"
)

// place is where in the values a schema applies, and what the chart itself
// supplies there.
type place struct {
	// path from the values' root.
	path []string
	// def is the chart's own value, from values.yaml, if has is set.
	def any
	has bool
	// exact: what the resource says is all there is. So it is within lists,
	// which Helm replaces; maps it merges with values.yaml and valuesFrom.
	exact bool
	// wild: def is what the chart supplies for any of its keys, not for one.
	wild bool
	// unnamed: a list item or the value of a map with free keys.
	unnamed bool
	// required by the schema of the object that holds it.
	required bool
	// guards say for each step of the path whether the chart supplies it.
	guards []bool
	// blind: no rule on the spec can look this deep.
	blind bool
}

// child is the place of a field.
func (p place) child(name string, required bool) place {
	out := p.below()
	out.path = append(slices.Clone(p.path), name)
	out.required = required
	if values, ok := p.def.(map[string]any); ok && !p.exact {
		out.def, out.has = values[name]
	}
	out.guards = append(slices.Clone(p.guards), out.has && !out.wild)
	return out
}

// values is the place of the values of a map with free keys.
func (p place) values() place {
	out := p.below()
	out.unnamed, out.wild, out.blind = true, true, true
	if values, ok := p.def.(map[string]any); ok && !p.exact && len(values) > 0 {
		merged := map[string]any{}
		for _, name := range sortedKeys(values) {
			out.def, out.has = values[name], true
			if inner, ok := values[name].(map[string]any); ok {
				maps.Copy(merged, inner)
				out.def = merged
			}
		}
	}
	return out
}

// item is the place of the items of a list.
func (p place) item() place {
	out := p.below()
	out.unnamed, out.exact, out.blind = true, true, true
	return out
}

func (p place) below() place {
	return place{path: p.path, exact: p.exact, wild: p.wild, blind: p.blind, guards: p.guards}
}

// supplies says whether the chart always supplies a field, so that a resource
// need not.
func (p place) supplies(name string) bool {
	values, ok := p.def.(map[string]any)
	return ok && !p.exact && !p.wild && values[name] != nil
}
