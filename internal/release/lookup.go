// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/chartgate/chartgate/internal/identity"
)

// lookupClients answers the template function lookup with the identity's own
// clients. A lookup that could not be answered is kept: it is no fault of the
// template, and passes.
type lookupClients struct {
	ctx     context.Context
	clients *identity.Clients
	failed  error
}

// GetClientFor implements engine.ClientProvider.
func (l *lookupClients) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	mapping, err := l.clients.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		err = fmt.Errorf("lookup of %s %s: %w", apiVersion, kind, err)
		if !meta.IsNoMatchError(err) {
			l.failed = err
		}
		return nil, false, err
	}
	resource := l.clients.Dynamic.Resource(mapping.Resource)
	return lookupResource{ResourceInterface: resource, all: resource, lookups: l, kind: kind},
		mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// lookupResource reads within the render's context, and keeps what goes wrong.
type lookupResource struct {
	dynamic.ResourceInterface
	all     dynamic.NamespaceableResourceInterface
	lookups *lookupClients
	kind    string
}

// Namespace implements dynamic.NamespaceableResourceInterface.
func (r lookupResource) Namespace(namespace string) dynamic.ResourceInterface {
	r.ResourceInterface = r.all.Namespace(namespace)
	return r
}

// Get implements dynamic.ResourceInterface.
func (r lookupResource) Get(_ context.Context, name string, o metav1.GetOptions, sub ...string) (*unstructured.Unstructured, error) {
	obj, err := r.ResourceInterface.Get(r.lookups.ctx, name, o, sub...) //nolint:contextcheck // Helm passes none of use
	return obj, r.keep(err)
}

// List implements dynamic.ResourceInterface.
func (r lookupResource) List(_ context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list, err := r.ResourceInterface.List(r.lookups.ctx, o) //nolint:contextcheck // Helm passes none of use
	return list, r.keep(err)
}

func (r lookupResource) keep(err error) error {
	if err != nil && !apierrors.IsNotFound(err) {
		r.lookups.failed = &lookupError{fmt.Errorf("lookup of %s: %w", r.kind, err)}
	}
	return err
}

// lookupError is why a lookup could not be answered.
type lookupError struct{ err error }

func (e *lookupError) Error() string { return e.err.Error() }
func (e *lookupError) Unwrap() error { return e.err }
