// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// maxPairs bounds the branches of a oneOf of which each pair is looked at.
const maxPairs = 5

// conditions adds what anyOf, oneOf, not and if say about the value to its node.
//
// A CRD sees the resource as it is written, Helm sees it merged with values.yaml
// and valuesFrom. So, outside of lists, a field that is there stays there, and
// one that is missing may still come. A condition is expressed as far as it
// holds for whatever is merged in.
func (c *converter) conditions(f *flat, at place, out *props) {
	// Of a null here the API server asks none of this.
	base := *out
	base.Nullable = false
	for _, g := range f.groups {
		lossy := false
		l := c.group(g, &base, at, over, &lossy)
		c.attach(out, l, lossy, g.ptr, g.keyword)
	}
	for _, n := range f.nots {
		lossy := false
		l := not(c.express([]located{n}, &base, at, under, &lossy))
		c.attach(out, l, lossy, n.ptr, "not")
	}
	for _, n := range f.conditionals {
		lossy := false
		l := c.conditional(n, &base, at, over, &lossy)
		c.attach(out, l, lossy, n.conditional.ptr, "if")
	}
}

func (c *converter) attach(out *props, l logic, lossy bool, ptr, keyword string) {
	attach(out, l)
	switch {
	case lossy && l.truth == always:
		c.warn(ptr, "%s can't be expressed in a CRD: it is not checked", keyword)
	case lossy:
		c.warn(ptr, "%s can be expressed only in part in a CRD: the rest is not checked", keyword)
	}
}

// group expresses an anyOf or oneOf.
func (c *converter) group(g group, base *props, at place, m mode, lossy *bool) logic {
	each := func(m mode, lossy *bool) []logic {
		out := make([]logic, len(g.branches))
		for i, branch := range g.branches {
			out[i] = c.express([]located{branch}, base, at, m, lossy)
		}
		return out
	}
	inexact := false
	same := each(m, &inexact)
	if g.keyword == "anyOf" {
		*lossy = *lossy || inexact
		return or(same...)
	}
	if !inexact {
		return exactlyOne(same)
	}
	*lossy = true
	opposite := each(under-m, &inexact)
	if len(g.branches) > maxPairs {
		if m == under {
			return logic{truth: never}
		}
		return or(same...)
	}
	if m == over {
		// At least one holds, and no two.
		parts := []logic{or(same...)}
		for i := range opposite {
			for j := range i {
				parts = append(parts, not(and(opposite[j], opposite[i])))
			}
		}
		return and(parts...)
	}
	var cases []logic
	for i := range same {
		parts := []logic{same[i]}
		for j := range opposite {
			if j != i {
				parts = append(parts, not(opposite[j]))
			}
		}
		cases = append(cases, and(parts...))
	}
	return or(cases...)
}

// conditional expresses if, then and else: not-if or then, and if or else.
func (c *converter) conditional(l located, base *props, at place, m mode, lossy *bool) logic {
	cond := l.conditional
	express := func(s *schema, m mode) logic {
		if s == nil {
			return logic{truth: always}
		}
		return c.express([]located{{s, l.refs}}, base, at, m, lossy)
	}
	return and(
		or(not(express(cond.when, under-m)), express(cond.then, m)),
		or(express(cond.when, m), express(cond.otherwise, m)),
	)
}

// expression collects what schemas say about a value, as conditions on the node
// that describes it.
type expression struct {
	c      *converter
	base   *props
	at     place
	mode   mode
	lossy  *bool
	failed bool // under: no condition is strict enough
	out    props
	parts  []logic
	used   bool
}

// express says what schemas ask of the value that the node base describes.
func (c *converter) express(list []located, base *props, at place, m mode, lossy *bool) logic {
	e := &expression{c: c, base: base, at: at, mode: m, lossy: lossy}
	f := c.flatten(list)
	kind := typesOf(base)
	switch {
	case f.never || f.types&kind == 0:
		return logic{truth: never}
	case c.spent() || len(f.gaps) > 0 || kind&^f.types != 0 || e.nullDiffers(f):
		e.giveUp()
	}
	e.value(f, kind)
	if kind&typeArray != 0 {
		e.list(f)
	}
	if kind&typeObject != 0 {
		e.object(f)
	}
	for _, g := range f.groups {
		e.parts = append(e.parts, c.group(g, base, at, m, lossy))
	}
	for _, n := range f.nots {
		e.parts = append(e.parts, not(c.express([]located{n}, base, at, under-m, lossy)))
	}
	for _, n := range f.conditionals {
		e.parts = append(e.parts, c.conditional(n, base, at, m, lossy))
	}
	if e.failed {
		return logic{truth: never}
	}
	if e.used {
		e.parts = append([]logic{{depends, e.out}}, e.parts...)
	}
	return and(e.parts...)
}

// giveUp notes that something can't be expressed.
func (e *expression) giveUp() {
	*e.lossy = true
	e.failed = e.failed || e.mode == under
}

// nullDiffers says whether schemas refuse a null that the API server, which asks
// little of a null, would take. Where null takes away a value of the chart, there
// is nothing left to refuse.
func (e *expression) nullDiffers(f *flat) bool {
	takesAway := !e.at.exact && !e.at.wild && e.at.has && e.at.def != nil
	if !e.base.Nullable || takesAway {
		return false
	}
	listed := !f.hasEnum || slices.Contains(f.enum, nil)
	return f.types&typeNull == 0 || !listed || f.never || len(f.groups)+len(f.nots)+len(f.conditionals) > 0
}

// value expresses what limits the value itself.
func (e *expression) value(f *flat, kind types) {
	switch listed := enum(f); {
	case !f.hasEnum:
	case kind&typeObject != 0 && !e.at.exact && slices.ContainsFunc(f.enum, func(v any) bool { return typeOf(v) == typeObject }):
		e.giveUp()
	case len(listed) == 0:
		e.parts = append(e.parts, logic{truth: never})
	case e.base.Nullable:
		e.parts = append(e.parts, logic{depends, props{AllOf: []props{{Enum: listed}}}})
	default:
		e.out.Enum, e.used = listed, true
	}
	if kind&(typeInteger|typeNumber) != 0 && len(f.min)+len(f.max)+len(f.multipleOf) > 0 {
		setNumeric(f, &e.out)
		e.used = true
		for _, more := range e.out.AllOf {
			e.parts = append(e.parts, logic{depends, more})
		}
		e.out.AllOf = nil
	}
	if kind&typeString == 0 {
		return
	}
	if f.minLength != nil || f.maxLength != nil {
		e.out.MinLength, e.out.MaxLength, e.used = f.minLength, f.maxLength, true
	}
	for _, l := range f.patterns {
		if compiles(*l.pattern) != nil {
			e.giveUp()
			continue
		}
		e.parts = append(e.parts, logic{depends, props{Pattern: *l.pattern}})
	}
	if len(f.formats) > 0 && e.c.parser.draft <= draft7 {
		e.giveUp()
	}
}

// list expresses what is asked of a list and its items.
func (e *expression) list(f *flat) {
	if f.minItems != nil || f.maxItems != nil {
		e.out.MinItems, e.out.MaxItems, e.used = f.minItems, f.maxItems, true
	}
	if f.unique != nil {
		e.giveUp()
	}
	if len(f.items) == 0 {
		return
	}
	item := itemOf(e.base)
	if item == nil {
		e.giveUp()
		return
	}
	switch l := e.c.express(f.items, item, e.at.item(), e.mode, e.lossy); l.truth {
	case never:
		none := int64(0)
		e.parts = append(e.parts, logic{depends, props{MaxItems: &none}})
	case depends:
		e.parts = append(e.parts, logic{depends, props{Items: items(l.cond)}})
	case always: // asks nothing
	}
}

// object expresses what is asked of an object and its fields.
func (e *expression) object(f *flat) {
	if f.closed || len(e.c.free(f)) > 0 {
		e.giveUp()
	}
	if f.minProps != nil || f.maxProps != nil {
		if e.at.exact {
			e.out.MinProperties, e.out.MaxProperties, e.used = f.minProps, f.maxProps, true
		} else {
			e.giveUp()
		}
	}
	for _, name := range f.required {
		e.require(name)
	}
	for _, name := range sortedKeys(f.props) {
		e.field(name, f.props[name])
	}
}

// require expresses that a field is there.
func (e *expression) require(name string) {
	field, declared := e.base.Properties[name]
	certain := declared && !field.Nullable // null would take the field away again
	switch {
	case !e.at.exact && certain && e.at.supplies(name):
	case e.at.exact || e.mode == under && certain:
		e.need(name)
	default:
		e.giveUp()
	}
}

func (e *expression) need(name string) {
	if !slices.Contains(e.out.Required, name) {
		e.out.Required = append(e.out.Required, name)
		slices.Sort(e.out.Required)
	}
	e.used = true
}

// field expresses what is asked of a field, if it is there.
func (e *expression) field(name string, list []located) {
	base, ok := e.base.Properties[name]
	if !ok || name == "metadata" { // no CRD may speak of metadata here
		e.giveUp()
		return
	}
	l := e.c.express(list, &base, e.at.child(name, false), e.mode, e.lossy)
	if l.truth == always {
		return
	}
	if !e.at.exact && e.mode == under {
		// A field that is missing here may still come, with any value.
		if l.truth == never {
			e.giveUp()
			return
		}
		e.need(name)
	}
	if l.truth == never {
		if slices.Contains(e.out.Required, name) {
			e.failed = true
			return
		}
		l.cond = props{Not: &props{}}
	}
	if e.out.Properties == nil {
		e.out.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
	}
	e.out.Properties[name] = l.cond
	e.used = true
}
