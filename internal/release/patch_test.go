// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestThreeWayPatch(t *testing.T) {
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {strategy: "
	const custom = "apiVersion: x.dev/v1\nkind: Thing\nmetadata: {name: a}\n"
	cases := map[string]struct{ original, target, live, want string }{
		"nothing differs":                     {head + "data: {a: '1'}", head + "data: {a: '1'}", head + "data: {a: '1', b: '2'}", ""},
		"an edited field is set back":         {head + "data: {a: '1'}", head + "data: {a: '1'}", head + "data: {a: '2'}", `{"data":{"a":"1"}}`},
		"a removed field is taken away":       {head + "data: {a: '1', b: '2'}", head + "data: {a: '1'}", head + "data: {a: '1', b: '2'}", `{"data":{"b":null}}`},
		"a custom kind's field is set back":   {custom + "spec: {a: 1}", custom + "spec: {a: 1}", custom + "spec: {a: 2, c: 3}", `{"spec":{"a":1}}`},
		"a custom kind's removed field goes":  {custom + "spec: {a: 1, b: 2}", custom + "spec: {a: 1}", custom + "spec: {a: 1, b: 2}", `{"spec":{"b":null}}`},
		"what the server filled in a union":   {deployment + "{type: RollingUpdate}}", deployment + "{type: RollingUpdate}}", deployment + "{type: RollingUpdate, rollingUpdate: {maxSurge: 25%}}}", ""},
		"another member of a union":           {deployment + "{type: Recreate}}", deployment + "{type: Recreate}}", deployment + "{type: RollingUpdate, rollingUpdate: {maxSurge: 25%}}}", `{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}`},
		"what others filled in is left alone": {custom + "spec: {a: 1}", custom + "spec: {a: 1}", custom + "spec: {a: 1}\nstatus: {x: 1}", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			patch, _, err := threeWayPatch(parse(t, c.original), parse(t, c.target), parse(t, c.live))
			if err != nil {
				t.Fatal(err)
			}
			if string(patch) != c.want {
				t.Errorf("patch is %s, want %s", patch, c.want)
			}
		})
	}
}

func TestPatchToAVersionKeepsTheRest(t *testing.T) {
	live := parse(t, "apiVersion: x.dev/v1\nkind: Thing\nmetadata: {name: a, resourceVersion: '7'}\n")
	for patch, want := range map[string]string{
		`{"spec":{"big":9007199254740993,"gone":null}}`: `{"metadata":{"resourceVersion":"7"},"spec":{"big":9007199254740993,"gone":null}}`,
		`{"metadata":{"labels":{"a":"b"}}}`:             `{"metadata":{"labels":{"a":"b"},"resourceVersion":"7"}}`,
	} {
		if got, err := toVersion([]byte(patch), live); err != nil || string(got) != want {
			t.Errorf("%s becomes %s (%v), want %s", patch, got, err, want)
		}
	}
}

func TestOwnerCreatedAnewTakesThePlaceOfTheFormer(t *testing.T) {
	owned := func(uid string) *unstructured.Unstructured {
		return parse(t, "apiVersion: x.dev/v1\nkind: Thing\nmetadata:\n  name: a\n  ownerReferences:\n  - {apiVersion: v1, kind: App, name: one, uid: '"+uid+"', controller: true}\n")
	}
	original := adoptStaleOwners(owned("new"), owned("new"), owned("old"))
	if refs := original.GetOwnerReferences(); len(refs) != 2 || refs[1].UID != "old" {
		t.Errorf("the former reference would stay: %v", refs)
	}
	if same := adoptStaleOwners(owned("new"), owned("new"), owned("new")); len(same.GetOwnerReferences()) != 1 {
		t.Error("a current reference counts as stale")
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add("a: 1\n---\n---\nnull\n---\n{}")
	f.Add("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = parseManifestString(text) // must not panic
	})
}
