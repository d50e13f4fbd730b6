// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// setDefault makes a default that the schema declares one of the CRD, where the
// mode asks for it and the value fits.
func (c *converter) setDefault(f *flat, at place, out *props) {
	if !f.hasDefault || len(at.path) == 0 || at.unnamed {
		return
	}
	if at.def != nil && !at.wild && !sameJSON(f.def, at.def) && f.def != nil {
		c.warn(f.defaultPtr, "the default %s differs from %s of values.yaml, which Helm uses: mend one of them", encode(f.def), encode(at.def))
	}
	switch {
	case f.def == nil, c.defaults == DefaultsNone, c.defaults == DefaultsMissing && at.has:
		return
	}
	value := raw(f.def)
	if err := fits(out, value.Raw); err != nil {
		c.warn(f.defaultPtr, "the default %s does not fit its own field, so it is not taken over: %v", encode(f.def), err)
		return
	}
	out.Default = &value
}

// fits says whether the API server would take a value as the default of a node.
func fits(node *props, value []byte) error {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(node, &internal, nil); err != nil {
		return err
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		return err
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return err
	}
	holder := map[string]any{}
	if err := json.Unmarshal([]byte(`{"v":`+string(value)+`}`), &holder); err != nil {
		return err
	}
	v := integers(holder["v"])
	if object, ok := v.(map[string]any); ok {
		pruned, _ := runtime.DeepCopyJSONValue(object).(map[string]any)
		pruning.Prune(pruned, structural, false)
		if !sameJSON(pruned, object) {
			return errors.New("it has fields that the schema doesn't list")
		}
	}
	defaulting.Default(v, structural)
	errs := validation.ValidateCustomResource(field.NewPath("default"), v, validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(field.NewPath("default"), structural, asMap(v))...)
	return errs.ToAggregate()
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// integers turns whole floating point numbers into integers, as the API server
// reads them.
func integers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = integers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case float64:
		if isWhole(v) && v < 1<<53 && v > -(1<<53) {
			return int64(v)
		}
	}
	return v
}

// validate checks a CRD as the API server does when it is created.
func validate(crd *apiextensionsv1.CustomResourceDefinition) error {
	defaulted := crd.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(defaulted)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&defaulted.Spec)
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(defaulted, &internal, nil); err != nil {
		return fmt.Errorf("convert the CRD: %w", err)
	}
	internal.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
	return validateInternal(context.Background(), &internal)
}
