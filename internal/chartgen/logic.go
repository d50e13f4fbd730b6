// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

// mode says on which side of the truth a condition may err where it can't be
// expressed in full.
type mode int

const (
	// over may take more than the JSON schema.
	over mode = iota
	// under may take less. What is negated is expressed like this.
	under
)

type truth int

const (
	always truth = iota
	never
	depends
)

// logic is a condition on a value: always or never true, or a value validation
// of a CRD.
type logic struct {
	truth truth
	cond  props
}

func not(l logic) logic {
	switch l.truth {
	case always:
		return logic{truth: never}
	case never:
		return logic{truth: always}
	default:
		return logic{depends, props{Not: &l.cond}}
	}
}

func or(list ...logic) logic {
	var conds []props
	for _, l := range list {
		switch l.truth {
		case always:
			return l
		case depends:
			conds = append(conds, l.cond)
		case never: // adds nothing
		}
	}
	switch len(conds) {
	case 0:
		return logic{truth: never}
	case 1:
		return logic{depends, conds[0]}
	default:
		return logic{depends, props{AnyOf: conds}}
	}
}

func and(list ...logic) logic {
	var conds []props
	for _, l := range list {
		switch l.truth {
		case never:
			return l
		case depends:
			conds = append(conds, l.cond)
		case always: // asks nothing
		}
	}
	switch len(conds) {
	case 0:
		return logic{truth: always}
	case 1:
		return logic{depends, conds[0]}
	default:
		return logic{depends, props{AllOf: conds}}
	}
}

// exactlyOne of the conditions holds.
func exactlyOne(list []logic) logic {
	var conds []props
	for _, l := range list {
		switch l.truth {
		case always:
			conds = append(conds, props{})
		case depends:
			conds = append(conds, l.cond)
		case never: // is not the one
		}
	}
	switch {
	case len(conds) == 0:
		return logic{truth: never}
	case len(conds) == 1 && len(list) == 1:
		return list[0]
	default:
		return logic{depends, props{OneOf: conds}}
	}
}

// attach adds a condition to a node of the schema.
func attach(out *props, l logic) {
	switch {
	case l.truth == always:
	case l.truth == never:
		out.AllOf = append(out.AllOf, props{Not: &props{}})
	case onlyAllOf(l.cond):
		for _, part := range l.cond.AllOf {
			attach(out, logic{depends, part})
		}
	case len(l.cond.OneOf) > 0 && len(out.OneOf) == 0:
		out.OneOf = l.cond.OneOf
	case onlyAnyOf(l.cond) && len(out.AnyOf) == 0:
		out.AnyOf = l.cond.AnyOf
	case onlyNot(l.cond) && out.Not == nil:
		out.Not = l.cond.Not
	default:
		out.AllOf = append(out.AllOf, l.cond)
	}
}

// A condition is either made of others or holds limits of its own, never both.
func onlyAllOf(p props) bool { return len(p.AllOf) > 0 }
func onlyAnyOf(p props) bool { return len(p.AnyOf) > 0 }
func onlyNot(p props) bool   { return p.Not != nil }

// typesOf are the types that a node of a CRD's schema takes, less null.
func typesOf(node *props) types {
	switch {
	case node.XIntOrString:
		return typeInteger | typeString
	case node.Type == "number":
		return typeInteger | typeNumber
	case node.Type == "":
		return typeAny &^ typeNull
	default:
		return typeNames[node.Type]
	}
}

// itemOf is the node of a list's items, or nil.
func itemOf(node *props) *props {
	if node.Items == nil {
		return nil
	}
	return node.Items.Schema
}

func items(item props) *apiextensionsv1.JSONSchemaPropsOrArray {
	return &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}
}
