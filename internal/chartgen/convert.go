// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// props is a node of a CRD's schema.
type props = apiextensionsv1.JSONSchemaProps

// maxSchemas is how many schemas a conversion looks at. References are inlined,
// so that a small document can stand for a huge schema.
const maxSchemas = 20000

// converter makes a structural schema from a JSON schema. Its rule: it may take
// more than the JSON schema, never less.
type converter struct {
	parser   *parser
	defaults DefaultsMode
	budget   int
	warnings []Warning
	warned   map[string]bool
	required []requirement
}

// requirement is a value that a resource has to supply, for the chart doesn't.
type requirement struct {
	path   []string
	guards []bool // for each step but the last: whether the chart supplies it
}

func newConverter(p *parser, defaults DefaultsMode) *converter {
	return &converter{parser: p, defaults: defaults, budget: maxSchemas, warned: map[string]bool{}}
}

func (c *converter) spend()      { c.budget-- }
func (c *converter) spent() bool { return c.budget <= 0 }

// warn notes what can't be expressed, once for each place in the file.
func (c *converter) warn(ptr, format string, args ...any) {
	w := Warning{
		File: c.parser.doc.file, Line: c.parser.doc.line(ptr), Pointer: display(ptr),
		Message: fmt.Sprintf(format, args...),
	}
	if key := w.String(); !c.warned[key] {
		c.warned[key] = true
		c.warnings = append(c.warnings, w)
	}
}

// structural converts schemas that all apply to the value at a place.
func (c *converter) structural(list []located, at place) props {
	if c.spent() {
		c.warn("", "with its references inlined the schema is too large: fields from .%s on are kept open", strings.Join(at.path, "."))
		return open(true)
	}
	f := c.settle(list)
	for _, g := range f.gaps {
		c.warn(g.ptr, "%s", g.message)
	}
	replaced := !at.exact && at.has && !at.required
	if f.never {
		out := open(replaced)
		out.Description = describe(f, at, &out)
		out.Not = &props{}
		return out
	}
	kind := f.kind()
	out := c.shape(f, kind)
	out.Nullable = f.nullable || replaced
	if n := len(at.guards); n > 0 && out.Nullable {
		at.guards = append(slices.Clone(at.guards[:n-1]), false) // null takes away what the chart supplies
	}
	c.limits(f, kind, at, &out)
	switch out.Type {
	case "object":
		c.object(f, at, &out)
	case "array":
		c.array(f, at, &out)
	}
	c.conditions(f, at, &out)
	c.setDefault(f, at, &out)
	out.Description = describe(f, at, &out)
	return out
}

// open is a node that takes any value.
func open(nullable bool) props {
	yes := true
	return props{XPreserveUnknownFields: &yes, Nullable: nullable}
}

// kind is the set of types that a value may have, without null.
func (f *flat) kind() types {
	kind := f.types &^ typeNull
	if f.hasEnum {
		var listed types
		for _, v := range f.enum {
			listed |= typeOf(v)
		}
		f.nullable = f.nullable && listed&typeNull != 0
		if listed &^= typeNull; listed&typeInteger != 0 && kind&listed != 0 && kind&(typeInteger|typeNumber) == typeInteger|typeNumber && listed&typeNumber != 0 {
			listed |= typeInteger | typeNumber
		}
		kind &= listed
	}
	if kind == typeAny&^typeNull {
		switch {
		case len(f.props) > 0 || len(f.additional) > 0 || f.closed:
			kind = typeObject
		case len(f.items) > 0:
			kind = typeArray
		}
	}
	if kind == typeInteger|typeNumber {
		kind = typeNumber
	}
	return kind
}

// shape is the node for a kind: its type, or an open field where a CRD knows no such type.
func (c *converter) shape(f *flat, kind types) props {
	switch {
	case f.intOrString || kind == typeInteger|typeString:
		return props{XIntOrString: true}
	case kind == 0:
		c.warn(f.ptr, "no type fits: the field is kept open")
	case kind == typeAny&^typeNull:
	default:
		if names := kind.names(); len(names) == 1 {
			return props{Type: names[0]}
		}
		c.warn(f.ptr, "may be %s: a CRD field has one type, so the field is kept open", strings.Join(kind.names(), " or "))
	}
	return open(false)
}

// settle flattens schemas and takes into account what anyOf and oneOf say about
// the type: branches that can't hold are dropped, a single one left is merged
// in, and a branch for null makes the field nullable.
func (c *converter) settle(list []located) *flat {
	merged := map[string]bool{}
	nullable := false
	for {
		f := c.flatten(list)
		var groups []group
		before := len(list)
		for _, g := range f.groups {
			if merged[g.ptr] {
				continue
			}
			branches, union := c.branches(&g, f.types)
			switch {
			case len(g.branches) == 0 && union == 0:
				f.never = true
			case len(g.branches) == 1:
				merged[g.ptr] = true
				nullable = nullable || union&typeNull != 0
				list = append(slices.Clone(list), g.branches[0])
			default:
				f.types &= union
				if !onlyTypes(branches) {
					groups = append(groups, g)
				}
			}
		}
		if len(list) > before && !c.spent() {
			continue
		}
		f.groups = groups
		f.nullable = f.types&typeNull != 0 || nullable
		return f
	}
}

// branches drops those branches of a group that can't hold for any of the
// allowed types, and says which types the others allow.
func (c *converter) branches(g *group, allowed types) (kept []*flat, union types) {
	var live []located
	for _, branch := range g.branches {
		b := c.flatten([]located{branch})
		fits := b.types & allowed
		if b.never || fits == 0 {
			continue
		}
		union |= fits
		if fits == typeNull {
			continue
		}
		live, kept = append(live, branch), append(kept, b)
	}
	g.branches = live
	return kept, union
}

// onlyTypes says whether branches say nothing but a type.
func onlyTypes(branches []*flat) bool {
	return !slices.ContainsFunc(branches, func(b *flat) bool {
		return b.hasEnum || len(b.min)+len(b.max)+len(b.multipleOf)+len(b.patterns)+len(b.formats) > 0 ||
			b.minLength != nil || b.maxLength != nil || b.minItems != nil || b.maxItems != nil || b.minProps != nil || b.maxProps != nil ||
			b.unique != nil || len(b.props) > 0 || b.closed || len(b.additional) > 0 || len(b.required) > 0 || len(b.items) > 0 ||
			len(b.groups) > 0 || len(b.nots) > 0 || len(b.conditionals) > 0 || len(b.gaps) > 0
	})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
