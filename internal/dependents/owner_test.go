// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package dependents

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFindOwner(t *testing.T) {
	yes := true
	ref := metav1.OwnerReference{APIVersion: "x.dev/v1", Kind: "App", Name: "one", Controller: &yes}
	annotations := func(kind, name string) map[string]string {
		return map[string]string{"operator-sdk/primary-resource-type": kind, "operator-sdk/primary-resource": name}
	}
	cases := map[string]struct {
		meta  metav1.ObjectMeta
		want  string
		found bool
	}{
		"by controller reference":         {metav1.ObjectMeta{Namespace: "ns", OwnerReferences: []metav1.OwnerReference{ref}}, "App.x.dev ns/one", true},
		"by annotations":                  {metav1.ObjectMeta{Annotations: annotations("App.x.dev", "other/one")}, "App.x.dev other/one", true},
		"by reference before all":         {metav1.ObjectMeta{Namespace: "ns", OwnerReferences: []metav1.OwnerReference{ref}, Annotations: annotations("B.y", "a/b")}, "App.x.dev ns/one", true},
		"a reference that isn't in use":   {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "App", Name: "one"}}}, "", false},
		"an annotation that lacks a name": {metav1.ObjectMeta{Annotations: annotations("App.x.dev", "")}, "", false},
		"nobody's":                        {metav1.ObjectMeta{}, "", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			owner, found := findOwner(&c.meta)
			if found != c.found || (found && owner.GroupKind.String()+" "+owner.NamespacedName.String() != c.want) {
				t.Errorf("owner %v, found %v", owner, found)
			}
		})
	}
}

func TestFingerprintSeesWhatAReleaseCaresFor(t *testing.T) {
	base := metav1.ObjectMeta{UID: "u", Generation: 2, ResourceVersion: "5", Labels: map[string]string{"a": "b"}}
	same, other := map[string]func(*metav1.ObjectMeta){
		"a status write": func(m *metav1.ObjectMeta) { m.ResourceVersion = "6" },
		"a rollout's annotation": func(m *metav1.ObjectMeta) {
			m.Annotations = map[string]string{"deployment.kubernetes.io/revision": "2"}
		},
	}, map[string]func(*metav1.ObjectMeta){
		"a spec write":                    func(m *metav1.ObjectMeta) { m.Generation = 3 },
		"another label":                   func(m *metav1.ObjectMeta) { m.Labels = nil },
		"another object of that name":     func(m *metav1.ObjectMeta) { m.UID = "v" },
		"another owner":                   func(m *metav1.ObjectMeta) { m.OwnerReferences = []metav1.OwnerReference{{UID: "o"}} },
		"a write of a kind that has none": func(m *metav1.ObjectMeta) { m.Generation = 0; m.ResourceVersion = "6" },
	}
	for what, change := range same {
		m := *base.DeepCopy()
		change(&m)
		if fingerprintOf(&m) != fingerprintOf(&base) {
			t.Errorf("%s counts as a change", what)
		}
	}
	for what, change := range other {
		m := *base.DeepCopy()
		change(&m)
		if fingerprintOf(&m) == fingerprintOf(&base) {
			t.Errorf("%s does not count as a change", what)
		}
	}
}

func TestSummaryNamesWhatMatters(t *testing.T) {
	got := summarize([]Readiness{{Ready: true}, {Message: "waits"}, {Failed: true, Message: "broken"}})
	if got.Ready || !got.Failed || got.Message != "broken (and 1 more objects are not ready)" {
		t.Errorf("summary %+v", got)
	}
	if got := summarize(nil); !got.Ready {
		t.Errorf("of nothing: %+v", got)
	}
}
