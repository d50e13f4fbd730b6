// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"

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

// kept tells whether the object stays when its release goes.
func kept(obj *unstructured.Unstructured) bool {
	return obj.GetAnnotations()[helmkube.ResourcePolicyAnno] == helmkube.KeepPolicy
}

// ownedBy tells whether a live object belongs to the release.
func ownedBy(obj *unstructured.Unstructured, name, namespace string) bool {
	a := obj.GetAnnotations()
	return obj.GetLabels()[ManagedByLabel] == ManagedByHelm &&
		a[helmNameAnnotation] == name && a[helmNamespaceAnnotation] == namespace
}
