// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// types is a set of JSON types. The empty set stands for any type.
type types uint8

const (
	typeNull types = 1 << iota
	typeBoolean
	typeInteger
	typeNumber
	typeString
	typeArray
	typeObject

	typeAny = typeNull | typeBoolean | typeInteger | typeNumber | typeString | typeArray | typeObject
)

var typeNames = map[string]types{
	"null": typeNull, "boolean": typeBoolean, "integer": typeInteger, "number": typeNumber,
	"string": typeString, "array": typeArray, "object": typeObject,
}

// bound is a minimum or maximum.
type bound struct {
	value     float64
	exclusive bool
}

// conditional is an if with its then and else.
type conditional struct {
	ptr                   string
	when, then, otherwise *schema
}

// schema is one JSON schema of any draft, as it is written: one struct for the
// spellings of all drafts.
type schema struct {
	ptr   string
	never bool // the schema false

	ref     string // pointer of the referenced schema, or "" ...
	hasRef  bool   // ... which is the root if this is set
	foreign string // a reference that leads out of the document

	types              types
	title, description string
	deprecated         bool
	def                any
	hasDefault         bool

	enum    []any
	hasEnum bool

	min, max             []bound
	multipleOf           []float64
	minLength, maxLength *int64
	minItems, maxItems   *int64
	minProps, maxProps   *int64
	pattern              *string
	format               string
	unique               bool

	properties      map[string]*schema
	patternProps    bool
	additional      *schema
	required        []string
	items           *schema
	tuple           string // keyword of a tuple
	allOf           []*schema
	anyOf, oneOf    []*schema
	not             *schema
	conditional     *conditional
	unsupported     []string // keywords that limit values in ways no CRD can express
	preserveUnknown bool
	intOrString     bool
}

// parser turns the raw values of a document into schemas, each one once.
type parser struct {
	doc     *document
	draft   draft
	done    map[string]*schema
	anchors map[string]string
	bases   []string // pointers of inner schemas with an address of their own
}

func newParser(doc *document) *parser {
	p := &parser{doc: doc, done: map[string]*schema{}, anchors: map[string]string{}}
	p.draft, _, _ = draftOf(doc.root)
	p.findAnchors(doc.root, "")
	return p
}

// findAnchors notes the plain names that schemas give themselves.
func (p *parser) findAnchors(v any, ptr string) {
	switch v := v.(type) {
	case map[string]any:
		for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
			if name, ok := v[keyword].(string); ok {
				p.anchors[name] = ptr
			}
		}
		for _, keyword := range []string{"$id", "id"} {
			switch id, ok := v[keyword].(string); {
			case !ok || id == "":
			case id[0] == '#':
				p.anchors[id[1:]] = ptr
			case ptr != "":
				p.bases = append(p.bases, ptr)
			}
		}
		for key, value := range v {
			p.findAnchors(value, join(ptr, key))
		}
	case []any:
		for i, value := range v {
			p.findAnchors(value, join(ptr, strconv.Itoa(i)))
		}
	}
}

// at is the schema at a pointer, or nil where there is none.
func (p *parser) at(ptr string) *schema {
	raw, ok := p.doc.lookup(ptr)
	if !ok {
		return nil
	}
	return p.parse(raw, ptr)
}

func (p *parser) parse(raw any, ptr string) *schema {
	if s, ok := p.done[ptr]; ok {
		return s
	}
	s := &schema{ptr: ptr}
	p.done[ptr] = s
	switch raw := raw.(type) {
	case bool:
		s.never = !raw
	case map[string]any:
		p.object(s, object{raw})
	}
	return s
}

func (p *parser) object(s *schema, o object) {
	for _, keyword := range []string{"$ref", "$recursiveRef", "$dynamicRef"} {
		if ref, ok := o.text(keyword); ok {
			p.reference(s, ref)
		}
	}
	s.title, _ = o.text("title")
	s.description, _ = o.text("description")
	s.deprecated, _ = o.m["deprecated"].(bool)
	s.def, s.hasDefault = o.m["default"]
	if s.hasRef && p.draft <= draft7 {
		// These drafts ignore what stands beside $ref; the library that Helm
		// uses does so only for what draft 4 had.
		for _, keyword := range []string{"const", "contains", "exclusiveMaximum", "exclusiveMinimum", "if", "propertyNames"} {
			if _, ok := o.m[keyword]; ok {
				s.unsupported = append(s.unsupported, keyword)
			}
		}
		return
	}
	p.limits(s, o)
	p.applicators(s, o)
}

// reference resolves a $ref within the document.
func (p *parser) reference(s *schema, ref string) {
	s.hasRef = true
	inner := func(base string) bool { return s.ptr == base || strings.HasPrefix(s.ptr, base+"/") }
	if !strings.HasPrefix(ref, "#") || slices.ContainsFunc(p.bases, inner) {
		s.foreign = ref
		return
	}
	fragment := unescapePercent(ref[1:])
	switch ptr, isAnchor := p.anchors[fragment]; {
	case isAnchor:
		s.ref = ptr
	case fragment == "" || fragment[0] == '/':
		s.ref = fragment
	default:
		s.foreign = ref
	}
}

// limits reads the keywords that limit the value itself.
func (p *parser) limits(s *schema, o object) {
	switch t := o.m["type"].(type) {
	case string:
		s.types = typeNames[t]
	case []any:
		for _, name := range t {
			if name, ok := name.(string); ok {
				s.types |= typeNames[name]
			}
		}
	}
	if enum, ok := o.m["enum"].([]any); ok {
		s.enum, s.hasEnum = enum, true
	}
	if value, ok := o.m["const"]; ok && p.draft >= draft6 {
		switch {
		case !s.hasEnum:
			s.enum, s.hasEnum = []any{value}, true
		case !slices.ContainsFunc(s.enum, func(v any) bool { return sameJSON(v, value) }):
			s.enum = []any{}
		default:
			s.enum = []any{value}
		}
	}
	s.min = o.bounds("minimum", "exclusiveMinimum")
	s.max = o.bounds("maximum", "exclusiveMaximum")
	if n, ok := o.number("multipleOf"); ok && n > 0 {
		s.multipleOf = []float64{n}
		if n != math.Trunc(n) {
			// Kubernetes divides floating point numbers, so that 0.3 is no multiple of 0.1.
			s.multipleOf, s.unsupported = nil, []string{"multipleOf"}
		}
	}
	s.minLength, s.maxLength = o.count("minLength"), o.count("maxLength")
	s.minItems, s.maxItems = o.count("minItems"), o.count("maxItems")
	s.minProps, s.maxProps = o.count("minProperties"), o.count("maxProperties")
	if pattern, ok := o.text("pattern"); ok {
		s.pattern = &pattern
	}
	s.format, _ = o.text("format")
	s.unique, _ = o.m["uniqueItems"].(bool)
	if required, ok := o.m["required"].([]any); ok {
		for _, name := range required {
			if name, ok := name.(string); ok {
				s.required = append(s.required, name)
			}
		}
	}
	s.preserveUnknown, _ = o.m["x-kubernetes-preserve-unknown-fields"].(bool)
	s.intOrString, _ = o.m["x-kubernetes-int-or-string"].(bool)
}

// unsupportedKeywords limit values in ways that no CRD can express.
var unsupportedKeywords = []string{
	"contains", "dependencies", "dependentRequired", "dependentSchemas",
	"propertyNames", "unevaluatedItems", "unevaluatedProperties",
}

// applicators reads the keywords that apply other schemas.
func (p *parser) applicators(s *schema, o object) {
	if properties, ok := o.m["properties"].(map[string]any); ok {
		s.properties = make(map[string]*schema, len(properties))
		for name, raw := range properties {
			s.properties[name] = p.parse(raw, join(s.ptr, "properties", name))
		}
	}
	if patterns, ok := o.m["patternProperties"].(map[string]any); ok {
		s.patternProps = len(patterns) > 0
	}
	s.additional = p.child(s, o, "additionalProperties")
	switch items := o.m["items"].(type) {
	case []any:
		s.tuple = "items"
	case nil:
	default:
		s.items = p.parse(items, join(s.ptr, "items"))
	}
	if _, ok := o.m["prefixItems"]; ok && p.draft >= draft2020 {
		s.tuple, s.items = "prefixItems", nil
	}
	s.allOf = p.children(s, o, "allOf")
	s.anyOf = p.children(s, o, "anyOf")
	s.oneOf = p.children(s, o, "oneOf")
	s.not = p.child(s, o, "not")
	if when := p.child(s, o, "if"); when != nil && p.draft >= draft7 {
		s.conditional = &conditional{
			ptr: join(s.ptr, "if"), when: when,
			then: p.child(s, o, "then"), otherwise: p.child(s, o, "else"),
		}
	}
	for _, keyword := range unsupportedKeywords {
		switch value := o.m[keyword].(type) {
		case nil:
		case bool:
			if !value {
				s.unsupported = append(s.unsupported, keyword)
			}
		case map[string]any:
			if len(value) > 0 {
				s.unsupported = append(s.unsupported, keyword)
			}
		}
	}
}

func (p *parser) child(s *schema, o object, keyword string) *schema {
	raw, ok := o.m[keyword]
	if !ok {
		return nil
	}
	return p.parse(raw, join(s.ptr, keyword))
}

func (p *parser) children(s *schema, o object, keyword string) []*schema {
	raws, _ := o.m[keyword].([]any)
	var out []*schema
	for i, raw := range raws {
		out = append(out, p.parse(raw, join(s.ptr, keyword, strconv.Itoa(i))))
	}
	return out
}

// object reads keywords of a JSON object.
type object struct{ m map[string]any }

func (o object) text(keyword string) (string, bool) {
	s, ok := o.m[keyword].(string)
	return s, ok
}

func (o object) number(keyword string) (float64, bool) {
	n, ok := o.m[keyword].(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	// Beyond this, floating point numbers are inexact: no limit is better than a wrong one.
	return f, err == nil && math.Abs(f) <= 1<<53
}

func (o object) count(keyword string) *int64 {
	f, ok := o.number(keyword)
	if !ok || f < 0 {
		return nil
	}
	n := int64(f)
	return &n
}

// bounds reads a bound in the spelling of draft 4, where exclusive is a
// boolean, and of later drafts, where it is a bound of its own.
func (o object) bounds(inclusive, exclusive string) []bound {
	var out []bound
	if f, ok := o.number(inclusive); ok {
		flag, _ := o.m[exclusive].(bool)
		out = append(out, bound{f, flag})
	}
	if f, ok := o.number(exclusive); ok {
		out = append(out, bound{f, true})
	}
	return out
}
