// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

// trim drops what is not needed of an object before it is cached: of what is
// watched by metadata alone all but name and version, of others the managed fields.
func trim(obj any) (any, error) {
	switch o := obj.(type) {
	case *metav1.PartialObjectMetadata:
		return &metav1.PartialObjectMetadata{
			TypeMeta: o.TypeMeta,
			ObjectMeta: metav1.ObjectMeta{
				Name: o.Name, Namespace: o.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion,
			},
		}, nil
	case *unstructured.Unstructured:
		unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	}
	return obj, nil
}

// approvedIndex finds ReleaseApprovals by kind and name of what they approve.
const approvedIndex = "approved"

func (w *watch) indexers() cache.Indexers {
	if w.key.kind != releaseApprovals {
		return cache.Indexers{}
	}
	return cache.Indexers{approvedIndex: func(obj any) ([]string, error) {
		if o, ok := obj.(metav1.Object); ok {
			if kind, name, ok := approved(o); ok {
				return []string{kind + "/" + name}, nil
			}
		}
		return nil, nil
	}}
}

// approved is the kind and name of what a ReleaseApproval approves.
func approved(obj metav1.Object) (kind, name string, ok bool) {
	u, isObject := obj.(*unstructured.Unstructured)
	if !isObject {
		return "", "", false
	}
	kind, hasKind, _ := unstructured.NestedString(u.Object, "spec", "target", "kind")
	name, hasName, _ := unstructured.NestedString(u.Object, "spec", "target", "name")
	return kind, name, hasKind && hasName
}
