// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestPassThrough(t *testing.T) {
	spec := map[string]any{"gates": []any{}, "a": nil, "n": int64(1000000), "values": map[string]any{"b": "c"}}
	cases := map[string]struct {
		pass  PassThrough
		spec  any
		want  map[string]any
		fails bool
	}{
		"the spec without reserved fields": {pass: PassThrough{Path: "spec", Reserved: []string{"gates"}}, spec: spec, want: map[string]any{"a": nil, "n": int64(1000000), "values": map[string]any{"b": "c"}}},
		"a field below the spec":           {pass: PassThrough{Path: "spec.values"}, spec: spec, want: map[string]any{"b": "c"}},
		"a field that is not there":        {pass: PassThrough{Path: "spec.other"}, spec: spec, want: map[string]any{}},
		"no spec":                          {pass: PassThrough{Path: "spec"}, want: map[string]any{}},
		"values that are no map":           {pass: PassThrough{Path: "spec.n"}, spec: spec, fails: true},
		"a spec that is no map":            {pass: PassThrough{Path: "spec"}, spec: "x", fails: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: map[string]any{}}
			if c.spec != nil {
				obj.Object["spec"] = c.spec
			}
			got, err := c.pass.Translate(obj)
			if (err != nil) != c.fails {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(c.want, got); !c.fails && diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, kept := spec["gates"]; !kept {
		t.Error("the resource was changed")
	}
}

func TestOverride(t *testing.T) {
	values := map[string]any{"a": map[string]any{"b": "1", "c": "2"}, "l": []any{"x"}}
	got := Override(values, map[string]any{"a": map[string]any{"b": int64(3)}, "l": []any{}, "n": nil})
	want := map[string]any{"a": map[string]any{"b": int64(3), "c": "2"}, "l": []any{}, "n": nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{"a": map[string]any{"b": "1", "c": "2"}, "l": []any{"x"}}, values); diff != "" {
		t.Error("the values were changed: " + diff)
	}
}
