// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// makeChart is a chart of nothing but values and their schema.
func makeChart(schema, values string) *chart.Chart {
	chrt := &chart.Chart{Metadata: &chart.Metadata{APIVersion: chart.APIVersionV2, Name: "thing", Version: "1.0.0"}}
	if schema != "" {
		chrt.Schema = []byte(schema)
	}
	if values != "" {
		chrt.Raw = []*chart.File{{Name: valuesFile, Data: []byte(values)}}
		_ = yaml.Unmarshal([]byte(values), &chrt.Values)
	}
	return chrt
}

func mustCRD(t testing.TB, chrt *chart.Chart, opts Options) (*apiextensionsv1.CustomResourceDefinition, []string) {
	t.Helper()
	opts.Kind = "Thing"
	crd, warnings, err := CRD(chrt, opts)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, w := range warnings {
		lines = append(lines, w.Pointer+": "+w.Message)
	}
	return crd, lines
}

// specOf is the schema of a CRD's spec.
func specOf(crd *apiextensionsv1.CustomResourceDefinition) props {
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[SpecPath]
}

// server does with a resource what the API server does with it.
type server struct {
	t          testing.TB
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	cel        *schemacel.Validator
}

func newServer(t testing.TB, crd *apiextensionsv1.CustomResourceDefinition) *server {
	t.Helper()
	s := &server{t: t}
	var internal apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &internal, nil)
	if err == nil {
		s.structural, err = structuralschema.NewStructural(&internal)
	}
	if err == nil {
		s.validator, _, err = validation.NewSchemaValidator(&internal)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.cel = schemacel.NewValidator(s.structural, true, celconfig.PerCallLimit)
	return s
}

// admit is the spec as it would be stored, or why it is refused.
func (s *server) admit(spec string) (map[string]any, error) {
	s.t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte("{apiVersion: apps.chartgate.dev/v1alpha1, kind: Thing, metadata: {name: x}, spec: "+spec+"}"), &object); err != nil {
		s.t.Fatal(err)
	}
	integers(object)
	pruning.Prune(object, s.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, s.structural)
	defaulting.Default(object, s.structural)
	errs := validation.ValidateCustomResource(nil, object, s.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	if s.cel != nil && len(errs) == 0 {
		more, _ := s.cel.Validate(context.Background(), nil, s.structural, object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, more...)
	}
	stored, _ := object["spec"].(map[string]any)
	return stored, errs.ToAggregate()
}

// compact is a spec's schema in one line of JSON, without the fields that all kinds share.
func compact(t testing.TB, spec props) string {
	t.Helper()
	data, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	fields, _ := object["properties"].(map[string]any)
	delete(fields, "gates")
	delete(fields, "release")
	delete(object, "description")
	return strings.NewReplacer("x-kubernetes-preserve-unknown-fields", "x-open").Replace(encode(object))
}
