// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"slices"

	"github.com/operator-framework/operator-lib/handler"
	helmkube "helm.sh/helm/v3/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Metadata that Helm puts on every object of a release.
const (
	// ManagedByLabel with ManagedByHelm marks all released objects: watches select by it.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedByHelm is the value that Helm sets and asks for.
	ManagedByHelm = "Helm"

	helmNameAnnotation      = "meta.helm.sh/release-name"
	helmNamespaceAnnotation = "meta.helm.sh/release-namespace"
)

// stamp marks the object as part of the change's release, for Helm and for
// the way back to the owner: a controller reference where one can hold (same
// namespace, not to be kept), else the annotations of operator-lib, which
// helm-operator-plugins uses as well. The mark is put on when an object is
// applied and is no part of the stored manifest, so an owner that was created
// anew, with another UID, needs no new revision.
func stamp(o object, change Change) error {
	labels := o.obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ManagedByLabel] = ManagedByHelm
	o.obj.SetLabels(labels)
	annotations := o.obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[helmNameAnnotation] = change.Name
	annotations[helmNamespaceAnnotation] = change.Namespace
	o.obj.SetAnnotations(annotations)

	owner := change.Owner
	if o.namespaced() && o.obj.GetNamespace() == owner.GetNamespace() && !kept(o.obj) {
		if metav1.GetControllerOf(o.obj) == nil {
			o.obj.SetOwnerReferences(append(o.obj.GetOwnerReferences(), *metav1.NewControllerRef(owner, owner.GroupVersionKind())))
		}
		return nil
	}
	if err := handler.SetOwnerAnnotations(owner, o.obj); err != nil {
		return fmt.Errorf("owner of %s: %w", o, err)
	}
	return nil
}

// disown takes the way back to the owner off an object: owner references that
// are the owner's, and the annotations that stand in for one.
func disown(obj *unstructured.Unstructured, owners func(metav1.OwnerReference) bool) {
	refs := slices.DeleteFunc(obj.GetOwnerReferences(), owners)
	obj.SetOwnerReferences(refs)
	if len(refs) == 0 {
		unstructured.RemoveNestedField(obj.Object, "metadata", "ownerReferences")
	}
	annotations := obj.GetAnnotations()
	delete(annotations, handler.TypeAnnotation)
	delete(annotations, handler.NamespacedNameAnnotation)
	obj.SetAnnotations(annotations)
}

// kept tells whether the object stays when its release goes.
func kept(obj metav1.Object) bool {
	return obj.GetAnnotations()[helmkube.ResourcePolicyAnno] == helmkube.KeepPolicy
}

// ownedBy tells whether a live object belongs to the change's release.
func ownedBy(obj metav1.Object, change Change) bool {
	a := obj.GetAnnotations()
	return obj.GetLabels()[ManagedByLabel] == ManagedByHelm &&
		a[helmNameAnnotation] == change.Name && a[helmNamespaceAnnotation] == change.Namespace
}

// whose says whom a live object belongs to.
func whose(obj metav1.Object) string {
	a := obj.GetAnnotations()
	if name := a[helmNameAnnotation]; name != "" {
		return fmt.Sprintf("belongs to Helm release %s/%s", a[helmNamespaceAnnotation], name)
	}
	if ref := metav1.GetControllerOf(obj); ref != nil {
		return fmt.Sprintf("belongs to %s %s", ref.Kind, ref.Name)
	}
	return "was not made by this release"
}
