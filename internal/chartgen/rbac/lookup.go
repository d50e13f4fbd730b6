// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// lookedUp is one call of the template function lookup.
type lookedUp struct {
	kind schema.GroupKind
	verb string
	// namespace looked into; empty for all, or where the kind is in none.
	namespace string
}

// lookups answers the template function lookup, and keeps what was asked for.
// There is no cluster: either nothing is found, or whatever is asked for.
type lookups struct {
	kinds *Kinds
	found bool
	asked map[lookedUp]bool
}

// GetClientFor implements engine.ClientProvider.
func (l *lookups) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	resource, _ := l.kinds.Resource(gvk.GroupKind()) // one that is not known is taken to be in a namespace
	return lookupResource{lookups: l, gvk: gvk}, !resource.Cluster, nil
}

// lookupResource takes the calls that Helm's lookup makes.
type lookupResource struct {
	dynamic.NamespaceableResourceInterface
	lookups   *lookups
	gvk       schema.GroupVersionKind
	namespace string
}

// Namespace implements dynamic.NamespaceableResourceInterface.
func (r lookupResource) Namespace(namespace string) dynamic.ResourceInterface {
	r.namespace = namespace
	return r
}

// Get implements dynamic.ResourceInterface.
func (r lookupResource) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	r.ask("get")
	if r.lookups.found {
		return r.object(name), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: r.gvk.Group, Resource: r.gvk.Kind}, name)
}

// List implements dynamic.ResourceInterface.
func (r lookupResource) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	r.ask("list")
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": r.gvk.GroupVersion().String(), "kind": r.gvk.Kind + "List"}}
	if r.lookups.found {
		list.Items = append(list.Items, *r.object("found"))
	}
	return list, nil
}

func (r lookupResource) ask(verb string) {
	r.lookups.asked[lookedUp{kind: r.gvk.GroupKind(), verb: verb, namespace: r.namespace}] = true
}

func (r lookupResource) object(name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{}, "spec": map[string]any{}, "status": map[string]any{}}}
	obj.SetGroupVersionKind(r.gvk)
	obj.SetNamespace(r.namespace)
	obj.SetName(name)
	obj.SetUID("found")
	return obj
}
