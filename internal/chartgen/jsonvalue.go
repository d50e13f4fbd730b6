// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// typeOf is the type of a JSON or YAML value.
func typeOf(v any) types {
	switch v := v.(type) {
	case nil:
		return typeNull
	case bool:
		return typeBoolean
	case string:
		return typeString
	case []any:
		return typeArray
	case map[string]any:
		return typeObject
	default:
		if r, ok := rational(v); ok && !r.IsInt() {
			return typeNumber
		}
		return typeInteger
	}
}

// typeName is how people call the type of a value.
func typeName(v any) string {
	t := typeOf(v)
	for name, one := range typeNames {
		if one == t {
			return name
		}
	}
	return "any type"
}

// names of the types in a set, sorted.
func (t types) names() []string {
	var out []string
	for name, one := range typeNames {
		if t&one != 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// rational is the exact value of a number of whatever Go type. Numbers with
// huge exponents, which would fill the memory, have none.
func rational(v any) (*big.Rat, bool) {
	text := fmt.Sprint(v)
	if _, exponent, ok := strings.Cut(strings.ToLower(text), "e"); ok && len(strings.TrimLeft(exponent, "+-0")) > 3 {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// sameJSON compares two JSON or YAML values: numbers by value, objects whatever their order.
func sameJSON(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, sameJSON)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameJSON)
	case nil, bool, string:
		return a == b
	}
	switch b.(type) {
	case map[string]any, []any, nil, bool, string:
		return false
	}
	x, okX := rational(a)
	y, okY := rational(b)
	if !okX || !okY {
		return fmt.Sprint(a) == fmt.Sprint(b)
	}
	return x.Cmp(y) == 0
}

// encode is a value in JSON, on one line.
func encode(v any) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// raw is a value in the form a CRD holds it.
func raw(v any) apiextensionsv1.JSON { return apiextensionsv1.JSON{Raw: []byte(encode(v))} }

func unescapePercent(fragment string) string {
	if plain, err := url.PathUnescape(fragment); err == nil {
		return plain
	}
	return fragment
}
