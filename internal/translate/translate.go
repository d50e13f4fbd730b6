// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package translate turns the spec of a custom resource into chart values.
package translate

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Translator turns a custom resource into the values of its chart. It is pure:
// equal resources give equal values. An error means that the spec cannot be
// translated as it is; it is shown to the user, and the resource is Stalled
// until its spec changes.
type Translator interface {
	Translate(obj *unstructured.Unstructured) (map[string]any, error)
}

// PassThrough takes the values from the resource as they stand.
type PassThrough struct {
	// Path of the values in the resource, such as spec.
	Path string
	// Reserved names the keys at the top of the values that are not the chart's.
	Reserved []string
}

var _ Translator = PassThrough{}

// Translate implements Translator. A resource without values gives none.
func (p PassThrough) Translate(obj *unstructured.Unstructured) (map[string]any, error) {
	found, ok, err := unstructured.NestedFieldNoCopy(obj.Object, strings.Split(p.Path, ".")...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Path, err)
	}
	if !ok || found == nil {
		return map[string]any{}, nil
	}
	values, ok := found.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s has to be a map of chart values, and is a %T", p.Path, found)
	}
	out := make(map[string]any, len(values))
	maps.Copy(out, values)
	for _, k := range p.Reserved {
		delete(out, k)
	}
	return out, nil
}

// Override returns values with the overrides put over them: maps are merged,
// anything else is replaced. Neither argument is modified.
func Override(values, overrides map[string]any) map[string]any {
	out := make(map[string]any, len(values)+len(overrides))
	maps.Copy(out, values)
	for k, v := range overrides {
		below, isMap := v.(map[string]any)
		have, both := out[k].(map[string]any)
		if isMap && both {
			out[k] = Override(have, below)
			continue
		}
		out[k] = v
	}
	return out
}
