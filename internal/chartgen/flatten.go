// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import "slices"

// located is a schema together with the references that led to it, so that a
// schema that refers to itself is noticed.
type located struct {
	*schema
	refs *refChain
}

// refChain lists the referenced schemas that a schema is part of.
type refChain struct {
	ptr  string
	next *refChain
}

func (r *refChain) has(ptr string) bool {
	for ; r != nil; r = r.next {
		if r.ptr == ptr {
			return true
		}
	}
	return false
}

// group is an anyOf or oneOf.
type group struct {
	ptr      string
	keyword  string
	branches []located
}

// flat is what a list of schemas that all apply says together: references are
// followed and allOf is merged in.
type flat struct {
	ptr   string
	never bool

	types              types // typeAny where nothing is said
	nullable           bool  // set by settle
	title, description string
	deprecated         bool
	def                any
	hasDefault         bool
	defaultPtr         string

	enum                 []any
	hasEnum              bool
	min, max             []bound
	multipleOf           []float64
	minLength, maxLength *int64
	minItems, maxItems   *int64
	minProps, maxProps   *int64
	sizePtr              string // of the schema that limits the number of fields
	patterns             []located
	formats              []located
	unique               *schema

	props           map[string][]located
	closed          bool
	additional      []located
	required        []string
	items           []located
	groups          []group
	nots            []located
	conditionals    []located
	preserveUnknown bool
	intOrString     bool

	// gaps are what the schemas say that no CRD can express.
	gaps []gap
}

// gap is a construct that can't be expressed.
type gap struct{ ptr, message string }

// flatten merges schemas that all apply to the same value.
func (c *converter) flatten(list []located) *flat {
	f := &flat{types: typeAny, props: map[string][]located{}}
	for _, l := range list {
		if f.ptr == "" {
			f.ptr = l.ptr
		}
		c.merge(f, l)
	}
	return f
}

func (c *converter) merge(f *flat, l located) {
	s := l.schema
	c.spend()
	f.never = f.never || s.never
	f.annotate(s)
	if s.hasRef {
		c.follow(f, l)
	}
	f.limit(l)
	f.apply(l)
	for _, branch := range s.allOf {
		c.merge(f, located{branch, l.refs})
	}
}

// follow merges in the schema that a reference leads to.
func (c *converter) follow(f *flat, l located) {
	at := join(l.ptr, "$ref")
	if l.foreign != "" {
		f.gap(at, "leads to another document, "+l.foreign+keptOpen)
		return
	}
	target := c.parser.at(l.ref)
	if target == nil {
		f.gap(at, "leads nowhere, there is no "+display(l.ref)+keptOpen)
		return
	}
	if l.refs.has(l.ref) || c.spent() {
		f.gap(at, "refers back to "+display(l.ref)+", which contains it"+keptOpen)
		return
	}
	c.merge(f, located{target, &refChain{l.ref, l.refs}})
}

// keptOpen ends the message of a gap that leaves a field open.
const keptOpen = ": a CRD can't express this, so the field is kept open"

func (f *flat) gap(ptr, message string) { f.gaps = append(f.gaps, gap{ptr, message}) }

// annotate takes over what is said for people: the first schema that says something wins.
func (f *flat) annotate(s *schema) {
	if f.title == "" {
		f.title = s.title
	}
	if f.description == "" {
		f.description = s.description
	}
	f.deprecated = f.deprecated || s.deprecated
	if s.hasDefault && !f.hasDefault {
		f.def, f.hasDefault, f.defaultPtr = s.def, true, join(s.ptr, "default")
	}
}

// limit takes over the keywords that limit the value itself.
func (f *flat) limit(l located) {
	s := l.schema
	if s.types != 0 {
		allowed := s.types
		if allowed&typeNumber != 0 {
			allowed |= typeInteger
		}
		f.types &= allowed
	}
	if s.hasEnum {
		switch {
		case !f.hasEnum:
			f.enum, f.hasEnum = s.enum, true
		default:
			f.enum = intersect(f.enum, s.enum)
		}
	}
	f.min, f.max = append(f.min, s.min...), append(f.max, s.max...)
	f.multipleOf = append(f.multipleOf, s.multipleOf...)
	f.minLength, f.maxLength = largest(f.minLength, s.minLength), smallest(f.maxLength, s.maxLength)
	f.minItems, f.maxItems = largest(f.minItems, s.minItems), smallest(f.maxItems, s.maxItems)
	f.minProps, f.maxProps = largest(f.minProps, s.minProps), smallest(f.maxProps, s.maxProps)
	if s.minProps != nil || s.maxProps != nil {
		f.sizePtr = s.ptr
	}
	if s.pattern != nil && !slices.ContainsFunc(f.patterns, func(o located) bool { return *o.pattern == *s.pattern }) {
		f.patterns = append(f.patterns, l)
	}
	if s.format != "" {
		f.formats = append(f.formats, l)
	}
	if s.unique && f.unique == nil {
		f.unique = s
	}
	f.preserveUnknown = f.preserveUnknown || s.preserveUnknown
	f.intOrString = f.intOrString || s.intOrString
}

// apply takes over the keywords that apply other schemas.
func (f *flat) apply(l located) {
	s := l.schema
	for name, property := range s.properties {
		f.props[name] = append(f.props[name], located{property, l.refs})
	}
	if s.patternProps {
		f.gap(join(s.ptr, "patternProperties"), "fields named by a pattern"+keptOpen)
	}
	if s.additional != nil {
		switch {
		case s.additional.never && !s.patternProps:
			f.closed = true
		case !s.additional.never:
			f.additional = append(f.additional, located{s.additional, l.refs})
		}
	}
	for _, name := range s.required {
		if !slices.Contains(f.required, name) {
			f.required = append(f.required, name)
		}
	}
	slices.Sort(f.required)
	if s.items != nil {
		f.items = append(f.items, located{s.items, l.refs})
	}
	if s.tuple != "" {
		f.gap(join(s.ptr, s.tuple), "items that differ by position"+keptOpen)
	}
	if len(s.anyOf) > 0 {
		f.groups = append(f.groups, group{join(s.ptr, "anyOf"), "anyOf", locate(s.anyOf, l.refs)})
	}
	if len(s.oneOf) > 0 {
		f.groups = append(f.groups, group{join(s.ptr, "oneOf"), "oneOf", locate(s.oneOf, l.refs)})
	}
	if s.not != nil {
		f.nots = append(f.nots, located{s.not, l.refs})
	}
	if s.conditional != nil {
		f.conditionals = append(f.conditionals, l)
	}
	for _, keyword := range s.unsupported {
		f.gap(join(s.ptr, keyword), keyword+" can't be expressed in a CRD: it is not checked")
	}
}

func locate(list []*schema, refs *refChain) []located {
	out := make([]located, len(list))
	for i, s := range list {
		out[i] = located{s, refs}
	}
	return out
}

func intersect(a, b []any) []any {
	out := []any{}
	for _, v := range a {
		if slices.ContainsFunc(b, func(w any) bool { return sameJSON(v, w) }) {
			out = append(out, v)
		}
	}
	return out
}

func largest(a, b *int64) *int64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

func smallest(a, b *int64) *int64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// tightest keeps the bound that limits most; sign is 1 for minima, -1 for maxima.
func tightest(bounds []bound, sign float64) *bound {
	var out *bound
	for i := range bounds {
		b := &bounds[i]
		if out == nil || sign*b.value > sign*out.value || b.value == out.value && b.exclusive {
			out = b
		}
	}
	return out
}
