// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/translate"
)

// server does with a resource what the API server does with it.
type server struct {
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	cel        *schemacel.Validator
}

func newServer(t testing.TB, plural string) *server {
	t.Helper()
	data, err := os.ReadFile("../../config/crd/bases/apps.chartgate.dev_" + plural + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatal(err)
	}
	crd.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	whole := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, whole, nil); err != nil {
		t.Fatal(err)
	}
	if errs := crdvalidation.ValidateCustomResourceDefinition(t.Context(), whole); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	var schema apiextensions.JSONSchemaProps
	err = apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &schema, nil)
	s := &server{}
	if err == nil {
		s.structural, err = structuralschema.NewStructural(&schema)
	}
	if err == nil {
		s.validator, _, err = validation.NewSchemaValidator(&schema)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.cel = schemacel.NewValidator(s.structural, true, celconfig.PerCallLimit)
	return s
}

// admit is the resource as it would be stored, or why it is refused. Before is
// what is stored already; empty when the resource is created.
func (s *server) admit(t testing.TB, before, spec string) (map[string]any, error) {
	t.Helper()
	object := s.read(t, spec)
	errs := validation.ValidateCustomResource(nil, object, s.validator)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	var old any
	if before != "" {
		old = s.read(t, before)
	}
	errs, _ = s.cel.Validate(t.Context(), nil, s.structural, object, old, celconfig.RuntimeCELCostBudget)
	return object, errs.ToAggregate()
}

func (s *server) read(t testing.TB, spec string) map[string]any {
	t.Helper()
	object, err := translate.ParseValues([]byte("{apiVersion: apps.chartgate.dev/v1alpha1, kind: X, metadata: {name: x}, spec: " + spec + "}"))
	if err != nil {
		t.Fatalf("%v: %s", err, spec)
	}
	pruning.Prune(object, s.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, s.structural)
	defaulting.Default(object, s.structural)
	return object
}

func TestHelmAppAdmission(t *testing.T) {
	s := newServer(t, "helmapps")
	const repository = "repository: https://charts.example.com, name: shop"
	takes := map[string]string{
		"the classic": `{chart: {repository: "https://charts.example.com/stable", name: nginx, version: 15.4.2, checkInterval: 15}, targetNamespace: web,
			values: {replicaCount: 2, deep: {list: [1, {a: b}]}}, gates: [{name: a, type: ConfigMapExists}, {name: b, type: SecretExists}, {name: c, type: ManualApproval}]}`,
		"a registry":                   `{chart: {repository: "oci://ghcr.io/org/charts/shop", version: "^1.0"}}`,
		"a registry with a name":       `{chart: {repository: "oci://localhost:5000/charts", name: shop, version: 1.0.0}}`,
		"an IPv6 host":                 `{chart: {repository: "https://[fd00::1]:8443/x", name: shop, version: 1.0.0}}`,
		"a slash at the end":           `{chart: {repository: "https://charts.example.com/", name: shop, version: 1.0.0}}`,
		"Secrets, signature, interval": `{chart: {` + repository + `, version: "1.x", secretRef: {name: repo}, verify: {secretRef: {name: keys}}, updateInterval: 1h30m}}`,
	}
	for _, v := range []string{"1.2.3", "v1.2.3", "1.2.3-rc.1", "1.2.3+build-5", "1", "1.x", "1.2.*", "*", "^1.2", "~1.2.3", "~> 1.2", ">=1.4 <3", ">= 1.4, < 3", "1.0 - 2.0", "^1 || ^3", ">=1.0.0-0", "!=1.2.3", "<2", "=1.2.3"} {
		takes["version "+v] = `{chart: {` + repository + `, version: "` + v + `"}}`
	}
	for name, spec := range takes {
		t.Run("takes "+name, func(t *testing.T) {
			stored, err := s.admit(t, "", spec)
			if err != nil {
				t.Fatal(err)
			}
			raw, _ := stored["spec"].(map[string]any)
			chart, _ := raw["chart"].(map[string]any)
			if chart["updateInterval"] == nil || raw["createNamespace"] != true {
				t.Errorf("defaults are missing: %v", raw)
			}
			u := helmApp("")
			u.Object["spec"] = raw
			read, err := chartOf(u)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parseQuery(read); err != nil {
				t.Errorf("the API server takes it, and the operator does not: %v", err)
			}
			if deep, ok := raw["values"].(map[string]any); name == "the classic" && (!ok || deep["replicaCount"] != int64(2)) {
				t.Errorf("values: %#v", raw["values"])
			}
		})
	}
	refuses := map[string]struct{ spec, want string }{
		"no chart":                   {`{}`, "spec.chart: Required"},
		"no version":                 {`{chart: {` + repository + `}}`, "spec.chart.version: Required"},
		"no scheme":                  {`{chart: {repository: charts.example.com, name: a, version: 1.0.0}}`, "has to start with https://"},
		"a file":                     {`{chart: {repository: "file:///etc", name: a, version: 1.0.0}}`, "has to start with https://"},
		"a password":                 {`{chart: {repository: "https://u:p@charts.example.com", name: a, version: 1.0.0}}`, "put them into a Secret"},
		"a query":                    {`{chart: {repository: "https://charts.example.com?x=y", name: a, version: 1.0.0}}`, "without query"},
		"a tag":                      {`{chart: {repository: "oci://ghcr.io/a/b:1.0.0", version: 1.0.0}}`, "belongs into version"},
		"no name for a repository":   {`{chart: {repository: "https://charts.example.com", version: 1.0.0}}`, "set name to the one to release"},
		"a name with a slash":        {`{chart: {repository: "https://charts.example.com", name: a/b, version: 1.0.0}}`, "not a name of a chart"},
		"an empty version":           {`{chart: {` + repository + `, version: ""}}`, "not a version"},
		"a word for a version":       {`{chart: {` + repository + `, version: latest}}`, "not a version"},
		"half a range":               {`{chart: {` + repository + `, version: ">= "}}`, "not a version"},
		"a version that is a float":  {`{chart: {` + repository + `, version: 1.2}}`, "must be of type string"},
		"an interval too short":      {`{chart: {` + repository + `, version: 1.x, updateInterval: 1s}}`, "10s at least"},
		"an interval that is none":   {`{chart: {` + repository + `, version: 1.x, updateInterval: soon}}`, "duration of 10s"},
		"gates checked all the time": {`{chart: {` + repository + `, version: 1.x, checkInterval: 0}}`, "greater than or equal to 1"},
		"a namespace with dots":      {`{chart: {` + repository + `, version: 1.x}, targetNamespace: a.b}`, "not a name of a namespace"},
		"a Secret with a slash":      {`{chart: {` + repository + `, version: 1.x, secretRef: {name: other/repo}}}`, "not a name of a Secret"},
		"values that are a list":     {`{chart: {` + repository + `, version: 1.x}, values: [a]}`, "spec.values"},
	}
	for name, c := range refuses {
		t.Run("refuses "+name, func(t *testing.T) {
			if _, err := s.admit(t, "", c.spec); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
		})
	}
	base := `{chart: {` + repository + `, version: 1.x}, targetNamespace: web}`
	for name, spec := range map[string]string{"another": `{chart: {` + repository + `, version: 1.x}, targetNamespace: db}`, "none": `{chart: {` + repository + `, version: 1.x}}`} {
		if _, err := s.admit(t, base, spec); err == nil || !strings.Contains(err.Error(), "targetNamespace can't be changed") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	if _, err := s.admit(t, base, `{chart: {`+repository+`, version: 2.x}, targetNamespace: web, createNamespace: false}`); err != nil {
		t.Error(err)
	}
}

func TestMicroserviceAdmission(t *testing.T) {
	s := newServer(t, "microservices")
	if _, err := s.admit(t, "", `{resources: "kind: Pod", release: {serviceAccountName: deployer}}`); err != nil {
		t.Error(err)
	}
	for spec, want := range map[string]string{`{}`: "spec.resources: Required", `{resources: ""}`: "must not be empty", `{resources: [a]}`: "must be of type string"} {
		if _, err := s.admit(t, "", spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %q in it", spec, err, want)
		}
	}
}

// The samples are admitted, and found to be what the operator reads.
func TestSamples(t *testing.T) {
	for plural, file := range map[string]string{"helmapps": "helmapp", "microservices": "microservice"} {
		data, err := os.ReadFile("../../config/samples/apps_v1alpha1_" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for part := range strings.SplitSeq(string(data), "\n---\n") {
			var u struct {
				Kind string         `json:"kind"`
				Spec map[string]any `json:"spec"`
			}
			if err := yaml.Unmarshal([]byte(part), &u); err != nil {
				t.Fatal(err)
			}
			if u.Kind != v1alpha1.KindHelmApp && u.Kind != v1alpha1.KindMicroservice {
				continue
			}
			found = true
			spec, err := json.Marshal(u.Spec)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := newServer(t, plural).admit(t, "", string(spec)); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if resources, ok := u.Spec["resources"].(string); ok {
				if _, err := NewInline(filesDigest).Resolve(t.Context(), microservice("x", resources), nil); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			}
		}
		if !found {
			t.Errorf("%s: there is no resource of the kind in it", file)
		}
	}
}
