// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"math"
	"regexp"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// formats that mean the same to JSON schema and to Kubernetes.
var formats = []string{"date", "date-time", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"}

// limits sets the keywords that limit the value itself, as far as they concern
// values of the kind.
func (c *converter) limits(f *flat, kind types, at place, out *props) {
	if f.hasEnum && kind&typeObject != 0 && !at.exact {
		c.warn(f.ptr, "enum of objects is not checked: objects are merged with what the chart supplies")
	} else {
		setEnum(f, out)
	}
	if kind&(typeInteger|typeNumber) != 0 {
		setNumeric(f, out)
	}
	if kind == typeInteger {
		out.Format = "int64"
	}
	if kind&typeString != 0 {
		out.MinLength, out.MaxLength = f.minLength, f.maxLength
		for _, l := range f.patterns {
			if err := compiles(*l.pattern); err != nil {
				c.warn(join(l.ptr, "pattern"), "the pattern does not compile in Go, so it is not checked, and Helm refuses it: %v", err)
				continue
			}
			if out.Pattern == "" {
				out.Pattern = *l.pattern
			} else {
				out.AllOf = append(out.AllOf, props{Pattern: *l.pattern})
			}
		}
	}
	for _, l := range f.formats {
		c.format(l, kind, out)
	}
}

func (c *converter) format(l located, kind types, out *props) {
	switch {
	case kind == typeInteger && (l.format == "int32" || l.format == "int64"),
		kind == typeNumber && (l.format == "float" || l.format == "double"):
		out.Format = l.format
	case c.parser.draft > draft7:
		// A remark only: from draft 2019-09 on Helm does not check formats.
	case kind == typeString && slices.Contains(formats, l.format):
		if out.Format == "" {
			out.Format = l.format
		}
	case kind&typeString != 0:
		c.warn(join(l.ptr, "format"), "format %q is not checked: Kubernetes has none of that meaning", l.format)
	}
}

func compiles(pattern string) error {
	_, err := regexp.Compile(pattern)
	return err
}

func setEnum(f *flat, out *props) {
	switch listed := enum(f); {
	case !f.hasEnum:
	case out.Nullable:
		// In a plain enum the API server would never find null, even if it is listed.
		out.AllOf = append(out.AllOf, props{Enum: listed})
	default:
		out.Enum = listed
	}
}

// enum lists the values, less null.
func enum(f *flat) []apiextensionsv1.JSON {
	out := []apiextensionsv1.JSON{}
	for _, v := range f.enum {
		if v != nil {
			out = append(out, raw(v))
		}
	}
	return out
}

func setNumeric(f *flat, out *props) {
	if b := tightest(f.min, 1); b != nil {
		out.Minimum, out.ExclusiveMinimum = &b.value, b.exclusive
	}
	if b := tightest(f.max, -1); b != nil {
		out.Maximum, out.ExclusiveMaximum = &b.value, b.exclusive
	}
	for i, n := range f.multipleOf {
		if i == 0 {
			out.MultipleOf = &n
		} else if n != f.multipleOf[0] {
			out.AllOf = append(out.AllOf, props{MultipleOf: &n})
		}
	}
}

// array sets the keywords of a list.
func (c *converter) array(f *flat, at place, out *props) {
	out.MinItems, out.MaxItems = f.minItems, f.maxItems
	item := open(true)
	if len(f.items) > 0 {
		item = c.structural(f.items, at.item())
	}
	out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}
	if f.unique == nil {
		return
	}
	switch item.Type {
	case "string", "integer", "number", "boolean":
		if !item.Nullable {
			set := "set"
			out.XListType = &set
			return
		}
	}
	c.warn(join(f.unique.ptr, "uniqueItems"), "uniqueItems is not checked: a CRD can do so for plain items only")
}

// object sets the keywords of an object.
func (c *converter) object(f *flat, at place, out *props) {
	if f.minProps != nil || f.maxProps != nil {
		if at.exact {
			out.MinProperties, out.MaxProperties = f.minProps, f.maxProps
		} else {
			c.warn(f.sizePtr, "the number of fields is not checked: objects are merged with what the chart supplies")
		}
	}
	if len(f.props) > 0 {
		out.Properties = make(map[string]props, len(f.props))
	}
	for _, name := range sortedKeys(f.props) {
		out.Properties[name] = c.structural(f.props[name], at.child(name, slices.Contains(f.required, name)))
	}
	c.require(f, at, out)
	c.declareBranches(f, at, out)
	switch free := c.free(f); {
	case f.closed:
	case len(free) > 0 && len(f.props) == 0 && len(out.Properties) == 0 && len(f.gaps) == 0:
		value := c.structural(free, at.values())
		out.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &value}
	default:
		if len(free) > 0 {
			c.warn(free[0].ptr, "fields that are not listed are taken unchecked: a CRD object either lists its fields or has free ones")
		}
		yes := true
		out.XPreserveUnknownFields = &yes
	}
}

// free are the schemas of fields that are not listed, less those that take anything.
func (c *converter) free(f *flat) []located {
	return slices.DeleteFunc(slices.Clone(f.additional), func(l located) bool {
		raw, _ := c.parser.doc.lookup(l.ptr)
		object, isObject := raw.(map[string]any)
		return raw == true || isObject && len(object) == 0
	})
}

// require notes which fields a resource must have.
func (c *converter) require(f *flat, at place, out *props) {
	if at.exact {
		out.Required = slices.Clone(f.required)
		return
	}
	for _, name := range f.required {
		field, declared := out.Properties[name]
		switch {
		case at.supplies(name):
		case at.blind || !declared || field.Nullable || !visible(&field):
			c.warn(f.ptr, "that %q is required is not checked: it can also come from what the chart supplies", name)
		default:
			c.required = append(c.required, requirement{append(slices.Clone(at.path), name), slices.Clone(at.guards)})
		}
	}
}

// visible says whether CEL knows a field.
func visible(node *props) bool {
	switch {
	case node.XIntOrString:
		return true
	case node.Type == "array":
		return visible(itemOf(node))
	case node.Type == "object" && node.AdditionalProperties != nil:
		return visible(node.AdditionalProperties.Schema)
	default:
		return node.Type != ""
	}
}

// declareBranches declares the fields that only branches of anyOf or oneOf
// speak of, so that they can be explained and their conditions be checked.
func (c *converter) declareBranches(f *flat, at place, out *props) {
	if f.closed {
		return
	}
	for _, g := range f.groups {
		for _, branch := range g.branches {
			b := c.flatten([]located{branch})
			for _, name := range sortedKeys(b.props) {
				if _, ok := out.Properties[name]; ok || c.spent() {
					continue
				}
				field := open(true)
				field.Description = describe(c.flatten(b.props[name]), at.child(name, false), &field)
				if out.Properties == nil {
					out.Properties = map[string]props{}
				}
				out.Properties[name] = field
			}
		}
	}
}

// isWhole says whether a number is exactly representable as an integer.
func isWhole(f float64) bool { return f == math.Trunc(f) }
