// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDifference(t *testing.T) {
	cases := map[string]struct{ have, want, patch map[string]any }{
		"equal":                           {map[string]any{"phase": "a"}, map[string]any{"phase": "a"}, map[string]any{}},
		"a new field":                     {nil, map[string]any{"phase": "a"}, map[string]any{"phase": "a"}},
		"a field that is gone":            {map[string]any{"message": "x"}, map[string]any{}, map[string]any{"message": nil}},
		"a kind's own field stays":        {map[string]any{"replicas": int64(1)}, map[string]any{}, map[string]any{}},
		"the old operator's manifest":     {map[string]any{"deployedRelease": "x"}, map[string]any{}, map[string]any{"deployedRelease": nil}},
		"a field within that is gone":     {map[string]any{"pending": map[string]any{"digest": "a", "plan": "p"}}, map[string]any{"pending": map[string]any{"digest": "b"}}, map[string]any{"pending": map[string]any{"digest": "b", "plan": nil}}},
		"a list is replaced as it stands": {map[string]any{"history": []any{1}}, map[string]any{"history": []any{2}}, map[string]any{"history": []any{2}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := difference(c.have, c.want); !reflect.DeepEqual(got, c.patch) {
				t.Errorf("patch is %v, want %v", got, c.patch)
			}
		})
	}
}

func TestReadTakesWhatParses(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"phase": "Deployed", "revision": "not a number", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
	}}}
	st := Read(obj)
	if st.Phase != "Deployed" || st.Revision != 0 || len(st.Conditions) != 1 {
		t.Errorf("status: %+v", st)
	}
	if st := Read(&unstructured.Unstructured{Object: map[string]any{}}); st.Phase != "" {
		t.Errorf("no status: %+v", st)
	}
}
