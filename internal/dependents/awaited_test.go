// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package dependents

import (
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A watch knows the version of an object a moment before its cache holds the
// object. Who was judged in that moment hears of the object when it is there.
func TestOwnerThatMissedAnObjectIsWoken(t *testing.T) {
	woken := 0
	tracker := NewTracker(t.Context(), nil, nil, logr.Discard(), func(Owner) { woken++ })
	owner := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x.dev/v1", "kind": "App", "metadata": map[string]any{"namespace": "ns", "name": "one", "uid": "u"}}}
	key := Owner{GroupKind: schema.GroupKind{Group: "x.dev", Kind: "App"}, NamespacedName: types.NamespacedName{Namespace: "ns", Name: "one"}}
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	live := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
		"namespace": "ns", "name": "made", "uid": "m", "resourceVersion": "7",
		"ownerReferences": []any{map[string]any{"apiVersion": "x.dev/v1", "kind": "App", "name": "one", "uid": "u", "controller": true}},
	}}}
	seen := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "made", UID: "m", ResourceVersion: "7", OwnerReferences: live.GetOwnerReferences(),
	}}

	tracker.Verified(owner, live, 1)
	tracker.changed(gvk.GroupKind(), nil, seen)
	if woken != 0 {
		t.Fatal("an object in the state that was verified woke its owner")
	}
	tracker.await(key, Ref{Mapping: &meta.RESTMapping{GroupVersionKind: gvk}, Namespace: "ns", Name: "made"})
	tracker.changed(gvk.GroupKind(), nil, seen)
	if woken != 1 {
		t.Error("the owner does not hear of an object that it was told is not there")
	}
	tracker.changed(gvk.GroupKind(), nil, seen)
	if woken != 1 {
		t.Error("the owner hears of it again")
	}
}
