// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"sigs.k8s.io/yaml"
)

const crdPath = "../../../config/crd/bases/apps.chartgate.dev_webapps.yaml"

func loadCRD(t testing.TB) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile(crdPath)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// TestDefaultsOfTheSchemaAreTheTranslatorsOwn: it makes no difference whether the API server filled in
// the defaults or the translator did.
func TestDefaultsOfTheSchemaAreTheTranslatorsOwn(t *testing.T) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(loadCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema, internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]string{
		"image alone":     `{image: a}`,
		"empty maps":      `{image: a, resources: {}, probe: {}, securityContext: {}, storage: {}, ingress: {tls: {}}, networkPolicy: {}}`,
		"some of them":    `{image: a, resources: {requests: {cpu: 1m}, limits: {memory: 1Gi}}, probe: {path: /}, storage: {enabled: true}, securityContext: {runAsUser: 1}}`,
		"nulls":           `{image: a, replicas: null, resources: {requests: null}, probe: null, storage: {enabled: true, size: null}}`,
		"a release and a": `{image: a, gates: [{name: a, type: ManualApproval}], release: {}}`,
	} {
		t.Run(name, func(t *testing.T) {
			bare := app(t, "shop", spec)
			filled := bare.DeepCopy()
			defaulting.PruneNonNullableNullsWithoutDefaults(filled.Object, structural)
			defaulting.Default(filled.Object, structural)
			if cmp.Equal(bare, filled) {
				t.Fatal("the schema has no defaults")
			}
			if diff := cmp.Diff(mustTranslate(t, filled), mustTranslate(t, bare)); diff != "" {
				t.Errorf("values with the schema's defaults and without (-with +without):\n%s", diff)
			}
		})
	}
}

func TestEveryFieldIsDescribed(t *testing.T) {
	var walk func(path string, s apiextensionsv1.JSONSchemaProps)
	walk = func(path string, s apiextensionsv1.JSONSchemaProps) {
		for name, p := range s.Properties {
			at := path + "." + name
			if p.Description == "" && at != ".metadata" {
				t.Errorf("%s has no description", at)
			}
			walk(at, p)
		}
		if s.Items != nil && s.Items.Schema != nil {
			walk(path+"[]", *s.Items.Schema)
		}
	}
	walk("", *loadCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema)
}

func TestCRDIsOneThatTheServerTakes(t *testing.T) {
	crd := loadCRD(t)
	crd.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
		t.Fatal(err)
	}
	if errs := validation.ValidateCustomResourceDefinition(t.Context(), internal); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
}
