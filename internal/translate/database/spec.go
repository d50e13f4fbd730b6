// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package database

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

// document is the part of a Database that is translated. That it begins at the
// top puts the whole path of a field into the errors of decoders.
type document struct {
	Spec v1alpha1.DatabaseSpec `json:"spec"`
}

// quantities are the fields that hold quantities: their type decodes itself and
// does not know where it is.
var quantities = [][]string{
	{"spec", "storageSize"},
	{"spec", "resources", "requests", "cpu"},
	{"spec", "resources", "requests", "memory"},
	{"spec", "resources", "limits", "cpu"},
	{"spec", "resources", "limits", "memory"},
	{"spec", "backup", "storageSize"},
}

// decode reads the spec, without Chartgate's own fields: those are not the
// translator's business. A field that it does not know is an error.
func decode(obj *unstructured.Unstructured) (*v1alpha1.DatabaseSpec, error) {
	content := map[string]any{}
	if found, ok := obj.Object["spec"]; ok && found != nil {
		fields, ok := found.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("spec has to be a map of fields, and is a %T", found)
		}
		fields = maps.Clone(fields)
		delete(fields, v1alpha1.GatesField)
		delete(fields, v1alpha1.ReleaseField)
		content["spec"] = fields
	}
	for _, path := range quantities {
		if err := checkQuantity(content, path); err != nil {
			return nil, err
		}
	}
	data, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	out := &document{}
	err = json.Unmarshal(data, out)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return nil, fmt.Errorf("%s: a %s does not fit, it has to be %s", wrong.Field, wrong.Value, describe(wrong.Type.String()))
	}
	if err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	// This decoder alone knows the path of a field that does not exist.
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, &document{}, true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		return nil, errors.Join(strict.Errors()...)
	}
	if err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	return &out.Spec, nil
}

// describe says in words what a Go type takes.
func describe(goType string) string {
	switch t := strings.TrimLeft(goType, "*"); {
	case t == "bool":
		return "true or false"
	case strings.HasPrefix(t, "int"):
		return "a whole number"
	case strings.HasPrefix(t, "[]"):
		return "a list"
	case t == "string", strings.HasSuffix(t, "Value"), strings.HasSuffix(t, "Policy"):
		return "text (in quotes, if it looks like a number)"
	default:
		return "a map of fields"
	}
}

// checkQuantity tells of a field that is there and is no quantity.
func checkQuantity(content map[string]any, path []string) error {
	value, found, err := unstructured.NestedFieldNoCopy(content, path...)
	if err != nil || !found || value == nil {
		return nil //nolint:nilerr // what is no map on the way is told by the decoder
	}
	switch value.(type) {
	case string, int64, float64, int:
	default:
		return fmt.Errorf("%s has to be an amount, such as 500m or 10Gi, and is a %T", strings.Join(path, "."), value)
	}
	if _, err := resource.ParseQuantity(fmt.Sprint(value)); err != nil {
		return fmt.Errorf("%s: %q is not an amount: write a number with or without a unit, such as 500m or 10Gi", strings.Join(path, "."), fmt.Sprint(value))
	}
	return nil
}

// setDefaults fills in what the CRD's schema fills in, for objects of a cluster
// whose CRD doesn't.
func setDefaults(spec *v1alpha1.DatabaseSpec) {
	orText(&spec.Version, "17")
	orText(&spec.Database, "app")
	orAmount(&spec.StorageSize, "10Gi")
	orNumber(&spec.Replicas, 1)
	orAmount(&spec.Resources.Requests.CPU, "100m")
	orAmount(&spec.Resources.Requests.Memory, "256Mi")
	orAmount(&spec.Resources.Limits.Memory, "512Mi")
	if spec.DeletionPolicy == "" {
		spec.DeletionPolicy = v1alpha1.DatabaseRetain
	}
	if c := spec.Credentials; c != nil {
		orText(&c.UsernameKey, "username")
		orText(&c.PasswordKey, "password")
	}
	if b := spec.Backup; b != nil {
		orText(&b.Schedule, "0 2 * * *")
		orAmount(&b.StorageSize, "10Gi")
		orNumber(&b.Retention, 7)
	}
}

func orText(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

func orNumber(field **int32, value int32) {
	if *field == nil {
		*field = &value
	}
}

func orAmount(field **resource.Quantity, value string) {
	if *field == nil {
		q := resource.MustParse(value)
		*field = &q
	}
}
