// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const crdName = "guestbooks.apps.chartgate.dev"

func guestbooks(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	content, err := os.ReadFile("../../config/crd/bases/apps.chartgate.dev_guestbooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(content, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// spec gives access to the properties of the CRD's spec.
func spec(crd *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.JSONSchemaProps {
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

func setSpec(crd *apiextensionsv1.CustomResourceDefinition, schema apiextensionsv1.JSONSchemaProps) {
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = schema
}

func TestBreakingChangesAreRefused(t *testing.T) {
	cases := map[string]struct {
		change func(crd *apiextensionsv1.CustomResourceDefinition)
		want   string // part of the only message; empty for none
	}{
		"nothing changes": {func(*apiextensionsv1.CustomResourceDefinition) {}, ""},
		"a field is added": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			spec(crd).Properties["motto"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		}, ""},
		"a value to choose from is added": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			service := spec(crd).Properties["service"]
			field := service.Properties["type"]
			if len(field.Enum) > 0 {
				field.Enum = append(field.Enum, apiextensionsv1.JSON{Raw: []byte(`"Another"`)})
			}
			service.Properties["type"] = field
		}, ""},
		"a description changes": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			field := spec(crd).Properties["replicaCount"]
			field.Description = "Other words."
			spec(crd).Properties["replicaCount"] = field
		}, ""},
		"a version is added": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			added := *crd.Spec.Versions[0].DeepCopy()
			added.Name, added.Storage = "v1beta1", false
			crd.Spec.Versions = append(crd.Spec.Versions, added)
		}, ""},
		"a field is removed": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			delete(spec(crd).Properties, "replicaCount")
		}, "spec.replicaCount"},
		"a field becomes required": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			s := spec(crd)
			s.Required = append(s.Required, "replicaCount")
			setSpec(crd, s)
		}, "v1alpha1 ^.spec: required:"},
		"a maximum is set": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			field := spec(crd).Properties["replicaCount"]
			field.Maximum = new(float64(3))
			spec(crd).Properties["replicaCount"] = field
		}, "v1alpha1 ^.spec.replicaCount: maximum:"},
		"a type changes": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			field := spec(crd).Properties["replicaCount"]
			field.Type = "string"
			spec(crd).Properties["replicaCount"] = field
		}, "v1alpha1 ^.spec.replicaCount: type:"},
		"a rule is added": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			s := spec(crd)
			s.XValidations = append(s.XValidations, apiextensionsv1.ValidationRule{Rule: "self.replicaCount < 9"})
			setSpec(crd, s)
		}, "v1alpha1 ^.spec: unhandled:"},
		"a version is dropped": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Name = "v1"
		}, "v1alpha1: version:"},
		"a version is no longer served": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Served = false
		}, "v1alpha1: version: the version is no longer served"},
		"the scope changes": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Scope = apiextensionsv1.ClusterScoped
		}, "scope"},
		"a short name goes": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Names.ShortNames = nil
		}, "short name gb is gone"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			was, is := guestbooks(t), guestbooks(t)
			c.change(is)
			changes, err := breaking(
				map[string]*apiextensionsv1.CustomResourceDefinition{crdName: was},
				map[string]*apiextensionsv1.CustomResourceDefinition{crdName: is})
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" && len(changes) > 0 {
				t.Errorf("refused: %v", changes)
			}
			if c.want != "" && (len(changes) == 0 || !strings.Contains(changes[0].String(), c.want)) {
				t.Errorf("%q is not in %v", c.want, changes)
			}
		})
	}
}

func TestAMissingCRDIsRefused(t *testing.T) {
	changes, err := breaking(map[string]*apiextensionsv1.CustomResourceDefinition{crdName: guestbooks(t)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(changes) != 1 || changes[0].check != "removed" {
		t.Errorf("got %v", changes)
	}
}

func TestAcceptedChangesPassUntilTheyAreNone(t *testing.T) {
	changes := []change{{crd: crdName, version: "v1alpha1", property: "^.spec.a", check: "maximum"}, {crd: crdName, check: "scope"}}
	accepted := acceptances{{CRD: crdName, Version: "v1alpha1", Property: "^.spec.a", Check: "maximum", Reason: "because"}}
	refused, stale := accepted.filter(changes)
	if len(refused) != 1 || refused[0].check != "scope" || len(stale) != 0 {
		t.Errorf("refused %v, stale %v", refused, stale)
	}
	if refused, stale = accepted.filter(nil); len(refused) != 0 || len(stale) != 1 {
		t.Errorf("refused %v, stale %v", refused, stale)
	}
}
