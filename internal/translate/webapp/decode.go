// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// specField is where the spec is, in the object and in messages.
const specField = "spec"

// quantityFields are the fields of the spec that hold quantities. Their type
// decodes itself, and its errors don't know where they are.
var quantityFields = [][]string{
	{"resources", "requests", "cpu"},
	{"resources", "requests", "memory"},
	{"resources", "limits", "cpu"},
	{"resources", "limits", "memory"},
	{"storage", "size"},
}

// decode reads the spec without Chartgate's own fields, which are not the
// translator's business. A field it doesn't know is an error.
func decode(obj *unstructured.Unstructured) (*v1alpha1.WebAppSpec, error) {
	own := map[string]any{}
	switch s := obj.Object[specField].(type) {
	case nil:
	case map[string]any:
		maps.Copy(own, s)
	default:
		return nil, fmt.Errorf("%s has to be a map of fields, and is a %T", specField, s)
	}
	delete(own, v1alpha1.GatesField)
	delete(own, v1alpha1.ReleaseField)
	for _, path := range quantityFields {
		if err := checkQuantity(own, path); err != nil {
			return nil, err
		}
	}
	spec := &v1alpha1.WebAppSpec{}
	if err := decodeJSON(own, spec); err != nil {
		return nil, err
	}
	// Only this decoder tells an unknown field with its path.
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(own, &v1alpha1.WebAppSpec{}, true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		lines := make([]string, 0, len(strict.Errors()))
		for _, e := range strict.Errors() {
			lines = append(lines, strings.Replace(e.Error(), `unknown field "`, `unknown field "`+specField+".", 1))
		}
		return nil, errors.New(strings.Join(lines, "; "))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", specField, err)
	}
	return spec, nil
}

// decodeJSON decodes the fields into the spec; errors name the field.
func decodeJSON(fields map[string]any, into *v1alpha1.WebAppSpec) error {
	data, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("%s: %w", specField, err)
	}
	err = json.Unmarshal(data, into)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%s has to be a %s, and is a %s", strings.TrimSuffix(specField+"."+wrong.Field, "."), typeName(wrong.Type.String()), wrong.Value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", specField, err)
	}
	return nil
}

// typeName is a word for a Go type that people know who write YAML.
func typeName(goType string) string {
	switch t := strings.TrimLeft(goType, "*"); {
	case t == "bool":
		return "boolean"
	case strings.HasPrefix(t, "int"):
		return "whole number (" + t + ")"
	case strings.HasPrefix(t, "[]"):
		return "list"
	case strings.HasPrefix(t, "map["):
		return "map"
	case t == "string" || strings.HasSuffix(t, "Value") || strings.HasSuffix(t, "Mode") || strings.HasSuffix(t, "Profile"):
		return "string"
	default:
		return "map of fields"
	}
}

// checkQuantity tells of a field that is there and holds no quantity.
func checkQuantity(fields map[string]any, path []string) error {
	value, found, err := unstructured.NestedFieldNoCopy(fields, path...)
	if err != nil || !found || value == nil {
		return nil // what is no map on the way is told by the decoder
	}
	name := specField + "." + strings.Join(path, ".")
	switch value.(type) {
	case string, int64, float64, int:
	default:
		return fmt.Errorf("%s has to be a quantity, such as 500m or 128Mi, and is a %T", name, value)
	}
	if _, err := resource.ParseQuantity(fmt.Sprint(value)); err != nil {
		return fmt.Errorf("%s: %q is not a quantity: write a number with or without a unit, such as 500m or 128Mi", name, fmt.Sprint(value))
	}
	return nil
}
