// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"sigs.k8s.io/yaml"
)

func TestGuestbookCRDIsWhatTheChartGives(t *testing.T) {
	crd, warnings, err := CRD(loadGuestbook(t), Options{Kind: "Guestbook", ShortNames: []string{"gb"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) > 0 {
		t.Errorf("the model chart has constructs that a CRD can't express: %v", warnings)
	}
	got, err := Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "config", "crd", "bases", FileName(crd))
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not up to date, run make manifests (-want +got):\n%s", path, diff)
	}
	for range 3 {
		again, _, err := CRD(loadGuestbook(t), Options{Kind: "Guestbook", ShortNames: []string{"gb"}})
		if err != nil {
			t.Fatal(err)
		}
		if more, err := Marshal(again); err != nil || string(more) != string(got) {
			t.Fatalf("the same chart gave another CRD: %v", err)
		}
	}
}

func TestGuestbookCRDNames(t *testing.T) {
	crd, _, err := CRD(loadGuestbook(t), Options{Kind: "Guestbook", ShortNames: []string{"gb"}})
	if err != nil {
		t.Fatal(err)
	}
	names := crd.Spec.Names
	if crd.Name != "guestbooks.apps.chartgate.dev" || names.Plural != "guestbooks" || names.Singular != "guestbook" ||
		names.ListKind != "GuestbookList" || !slices.Equal(names.ShortNames, []string{"gb"}) || !slices.Equal(names.Categories, []string{"chartgate"}) {
		t.Errorf("names %+v", names)
	}
	var columns []string
	for _, c := range crd.Spec.Versions[0].AdditionalPrinterColumns {
		columns = append(columns, c.Name)
	}
	if got := strings.Join(columns, " "); got != "Phase Ready Gates Revision Age Chart Version Message" {
		t.Errorf("columns %s", got)
	}
	if crd.Spec.Versions[0].Subresources.Status == nil {
		t.Error("no status subresource")
	}
}

func TestNamesFollowTheOptions(t *testing.T) {
	crd, _, err := CRD(makeChart("{}", ""), Options{Kind: "Proxy", Group: "example.com", Version: "v2"})
	if err != nil {
		t.Fatal(err)
	}
	if crd.Name != "proxies.example.com" || crd.Spec.Versions[0].Name != "v2" || FileName(crd) != "example.com_proxies.yaml" {
		t.Errorf("CRD %s, version %s, file %s", crd.Name, crd.Spec.Versions[0].Name, FileName(crd))
	}
}

func TestGuestbookAdmission(t *testing.T) {
	crd, _, err := CRD(loadGuestbook(t), Options{Kind: "Guestbook"})
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(t, crd)
	sample, err := os.ReadFile("../../config/samples/apps_v1alpha1_guestbook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := yaml.Unmarshal(sample, &object); err != nil {
		t.Fatal(err)
	}
	everything, err := os.ReadFile(filepath.Join("testdata", "guestbook", "everything.values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(everything, &object); err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]any{"empty": map[string]any{}, "the sample": object["spec"], "everything": withoutSpec(object)} {
		stored, err := server.admit(encode(spec))
		if err != nil {
			t.Errorf("%s is refused: %v", name, err)
		}
		if _, err := render(t, loadGuestbook(t), "hello", encode(stored)); err != nil {
			t.Errorf("%s is admitted, and Helm refuses it: %v", name, err)
		}
	}
	for spec, want := range map[string]string{
		`{replicaCount: -1}`:                                 "spec.replicaCount",
		`{replicaCount: "2"}`:                                "spec.replicaCount",
		`{service: {port: 0}}`:                               "spec.service.port",
		`{service: {type: Nowhere}}`:                         "spec.service.type",
		`{image: {tag: "a b"}}`:                              "spec.image.tag",
		`{resources: {limits: {cpu: ""}}}`:                   "spec.resources.limits.cpu",
		`{resources: {limits: {cpu: -1}}}`:                   "spec.resources.limits.cpu",
		`{ingress: {tls: [{}]}}`:                             "spec.ingress.tls[0].secretName",
		`{ingress: {tls: [{secretName: a, hosts: [x, x]}]}}`: "spec.ingress.tls[0].hosts[1]",
		`{gates: [{name: a}]}`:                               "spec.gates[0].type",
	} {
		if _, err := server.admit(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that names %s", spec, err, want)
		}
	}
}

func withoutSpec(object map[string]any) map[string]any {
	values := map[string]any{}
	for key, value := range object {
		switch key {
		case "apiVersion", "kind", "metadata", "spec":
		default:
			values[key] = value
		}
	}
	return values
}

// What the API server stores of a spec, for schemas in which null and defaults matter.
func TestAdmission(t *testing.T) {
	const closed = `{"type":"object","additionalProperties":false,"properties":{"a":{"type":"integer","default":1},"b":{"type":"string","enum":["x","y"]}}}`
	const needsPassword = `{"type":"object","required":["auth"],"properties":{"auth":{"type":"object","required":["password","user"],
		"properties":{"user":{"type":"string"},"password":{"type":"string"}}}}}`
	for name, tc := range map[string]struct {
		schema, values, spec string
		opts                 Options
		want, err            string
	}{
		"null takes away a value of the chart":         {schema: closed, values: "a: 1", spec: `{a: null}`, want: `{"a":null}`},
		"null of an enum too":                          {schema: closed, values: "b: x", spec: `{b: null}`, opts: Options{Defaults: DefaultsNone}, want: `{"b":null}`},
		"an enum is checked beside null":               {schema: closed, values: "b: x", spec: `{b: z}`, err: "spec.b"},
		"null where the chart has nothing is no value": {schema: closed, spec: `{a: null}`, want: `{"a":1}`},
		"null of what the chart requires is no value":  {schema: `{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}`, values: "a: 1", spec: `{a: null}`, want: `{}`},
		"a default of values.yaml is not stored":       {schema: closed, values: "a: 1", spec: `{}`, want: `{}`},
		"it is with defaults all":                      {schema: closed, values: "a: 1", spec: `{}`, opts: Options{Defaults: DefaultsAll}, want: `{"a":1}`},
		"and null still takes it away":                 {schema: closed, values: "a: 1", spec: `{a: null}`, opts: Options{Defaults: DefaultsAll}, want: `{"a":null}`},
		"a default that values.yaml lacks is stored":   {schema: closed, spec: `{}`, want: `{"a":1}`},
		"it is not with defaults none":                 {schema: closed, spec: `{}`, opts: Options{Defaults: DefaultsNone}, want: `{}`},
		"unknown fields of a closed object are pruned": {schema: closed, values: "a: 1", spec: `{typo: 1}`, want: `{}`},
		"those of an open one are kept":                {schema: `{"type":"object"}`, spec: `{any: {thing: null}}`, want: `{"any":{"thing":null}}`},

		"what the chart requires and lacks":          {schema: needsPassword, values: "auth: {user: admin}", spec: `{}`, err: "the chart requires spec.auth.password"},
		"is taken from the spec":                     {schema: needsPassword, values: "auth: {user: admin}", spec: `{auth: {password: x}}`, want: `{"auth":{"password":"x"}}`},
		"or from valuesFrom":                         {schema: needsPassword, values: "auth: {user: admin}", spec: `{release: {valuesFrom: [{kind: Secret, name: s}]}}`, want: `{"release":{"deletionPolicy":"Uninstall","drift":"Correct","valuesFrom":[{"key":"values.yaml","kind":"Secret","name":"s"}]}}`},
		"no spec at all where values are required":   {schema: needsPassword, spec: `null`, err: "spec: Required value"},
		"values below the spec are required as well": {schema: needsPassword, opts: Options{ValuesPath: "spec.values"}, spec: `{}`, err: "the chart requires spec.values.auth"},
		"reserved names are free below the spec":     {schema: `{"type":"object","properties":{"gates":{"type":"integer"}}}`, opts: Options{ValuesPath: "spec.values"}, spec: `{values: {gates: 3}}`, want: `{"values":{"gates":3}}`},
		"values deep below the spec":                 {schema: closed, opts: Options{ValuesPath: "spec.chart.values"}, spec: `{chart: {values: {b: z}}}`, err: "spec.chart.values.b"},
	} {
		t.Run(name, func(t *testing.T) {
			crd, _ := mustCRD(t, makeChart(tc.schema, tc.values), tc.opts)
			stored, err := newServer(t, crd).admit(tc.spec)
			switch {
			case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
				t.Errorf("error %v, want one with %q", err, tc.err)
			case tc.err == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.err == "" && encode(stored) != tc.want:
				t.Errorf("stored %s, want %s", encode(stored), tc.want)
			}
		})
	}
}

func TestChartWithoutSchemaIsOpen(t *testing.T) {
	crd, warnings := mustCRD(t, makeChart("", "count: 3\nname: x\nempty:\nlist: []\nbig: 10000000000\n"), Options{})
	if len(warnings) != 1 || !strings.Contains(warnings[0], "has no such file") {
		t.Errorf("warnings %q", warnings)
	}
	spec := specOf(crd)
	for field, want := range map[string]string{
		"count": "Value of the chart, an integer in values.yaml. Default: 3.",
		"name":  "Value of the chart, a string in values.yaml. Default: x.",
		"empty": "Value of the chart.",
		"list":  "Value of the chart, an array in values.yaml. Default: [].",
		"big":   "Value of the chart, an integer in values.yaml. Default: 10000000000.",
	} {
		if got := spec.Properties[field].Description; got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	if stored, err := newServer(t, crd).admit(`{count: many, other: {a: 1}}`); err != nil || encode(stored) != `{"count":"many","other":{"a":1}}` {
		t.Errorf("stored %s, error %v", encode(stored), err)
	}
}

func TestSubchartValuesCountAsTheChartsOwn(t *testing.T) {
	parent := makeChart(`{"type":"object","properties":{"db":{"type":"object","required":["user"],"properties":{"user":{"type":"string"}}}}}`, "")
	sub := makeChart("", "user: admin")
	sub.Metadata.Name = "postgres"
	parent.AddDependency(sub)
	parent.Metadata.Dependencies = []*chart.Dependency{{Name: "postgres", Alias: "db"}, {Name: "cache"}}
	crd, warnings := mustCRD(t, parent, Options{})
	if len(warnings) > 0 || len(specOf(crd).XValidations) > 0 {
		t.Errorf("warnings %q, rules %v", warnings, specOf(crd).XValidations)
	}
	if got := specOf(crd).Properties["db"].Properties["user"].Description; got != "Default: admin." {
		t.Errorf("description %q", got)
	}
}

func TestBadInputIsOneClearLine(t *testing.T) {
	for name, tc := range map[string]struct {
		schema, values string
		opts           Options
		want           string
	}{
		"no JSON":                      {schema: "{\n  \"type\": \"object\",\n  \"properties\": {,}\n}", want: "chart thing: values.schema.json:3:18: not valid JSON"},
		"a JSON file that breaks off":  {schema: "{\n  \"type\": ", want: "values.schema.json:2:10: not valid JSON: the file ends in the middle"},
		"two JSON values":              {schema: "{} {}", want: "values.schema.json:1:"},
		"an empty file":                {schema: " \n", want: "the file is empty"},
		"a list":                       {schema: "[]", want: "values.schema.json:1:1: #: not a valid JSON schema"},
		"an unknown type":              {schema: "{\n\"properties\":{\"a\":\n{\"type\":\"strng\"}}}", want: "values.schema.json:3:9: #/properties/a/type: not a valid JSON schema"},
		"a minimum in quotes":          {schema: `{"properties":{"a":{"minimum":"1"}}}`, want: "#/properties/a/minimum: not a valid JSON schema: got string, want number"},
		"required as a flag":           {schema: `{"properties":{"a":{"required":true}}}`, want: "#/properties/a/required: not a valid JSON schema"},
		"a $ref to nowhere":            {schema: `{"properties":{"a":{"$ref":"#/definitions/x"}}}`, want: "#/definitions/x"},
		"values that are a list":       {schema: `{"type":"array"}`, want: "values are an object, and this schema allows none"},
		"no values at all":             {schema: `false`, want: "values are an object, and this schema allows none"},
		"gates in the schema":          {schema: "{\n\"properties\":{\n\"gates\":{}}}", want: `values.schema.json:3: the key "gates" is taken by Chartgate's own spec.gates: keep the values apart with valuesPath: spec.values`},
		"release behind a $ref":        {schema: `{"$ref":"#/definitions/all","definitions":{"all":{"properties":{"release":{}}}}}`, want: `the key "release" is taken`},
		"gates in values.yaml":         {values: "a: 1\ngates: []\n", want: `chart thing: values.yaml:2: the key "gates" is taken`},
		"a kind that is no name":       {schema: "{}", opts: Options{Kind: "thing"}, want: `kind "thing" is no kind name: use CamelCase`},
		"a values path elsewhere":      {schema: "{}", opts: Options{ValuesPath: "status.values"}, want: "does not begin with spec"},
		"a values path that is taken":  {schema: "{}", opts: Options{ValuesPath: "spec.gates"}, want: "spec.gates holds Chartgate's own settings"},
		"a values path with bad names": {schema: "{}", opts: Options{ValuesPath: "spec..x"}, want: "is no field name"},
		"an unknown defaults mode":     {schema: "{}", opts: Options{Defaults: "some"}, want: "use missing, all or none"},
		"a plural that is no name":     {schema: "{}", opts: Options{Plural: "Big Things"}, want: "Kubernetes would refuse the CRD"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.opts.Kind == "" {
				tc.opts.Kind = "Thing"
			}
			_, _, err := CRD(makeChart(tc.schema, tc.values), tc.opts)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func FuzzSchema(f *testing.F) {
	for _, tc := range constructs {
		f.Add([]byte(tc.document()), []byte(tc.values))
	}
	guestbook, err := os.ReadFile(filepath.Join(guestbookPath, schemaFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(guestbook, []byte("replicaCount: 1"))
	f.Fuzz(func(t *testing.T, schema, values []byte) {
		crd, _, err := CRD(makeChart(string(schema), string(values)), Options{Kind: "Thing"})
		if err != nil {
			if strings.Contains(err.Error(), "Kubernetes would refuse") {
				t.Errorf("%v\nschema %s", err, schema)
			}
			return
		}
		if _, err := Marshal(crd); err != nil && !strings.Contains(err.Error(), "bytes, more than") {
			t.Error(err)
		}
	})
}
