// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package dependents

import (
	"strings"

	"github.com/operator-framework/operator-lib/handler"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Owner is a custom resource that owns released objects.
type Owner struct {
	schema.GroupKind
	types.NamespacedName
}

// OwnerOf returns the owner of the object of that kind.
func OwnerOf(gk schema.GroupKind, obj metav1.Object) Owner {
	return Owner{GroupKind: gk, NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
}

// findOwner reads from an object's metadata whom it belongs to: by its
// controller reference, else by the annotations that stand in for one where
// the object is cluster-scoped or lives in another namespace.
func findOwner(obj metav1.Object) (Owner, bool) {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil {
			return Owner{}, false
		}
		return Owner{
			GroupKind:      schema.GroupKind{Group: gv.Group, Kind: ref.Kind},
			NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: ref.Name},
		}, true
	}
	annotations := obj.GetAnnotations()
	kind, owner := annotations[handler.TypeAnnotation], annotations[handler.NamespacedNameAnnotation]
	if kind == "" || owner == "" {
		return Owner{}, false
	}
	namespace, name, ok := strings.Cut(owner, "/")
	if !ok {
		namespace, name = "", owner
	}
	return Owner{
		GroupKind:      schema.ParseGroupKind(kind),
		NamespacedName: types.NamespacedName{Namespace: namespace, Name: name},
	}, true
}
