// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner is who applies objects.
const fieldOwner = "olm-test"

// Kinds of OLM's API.
var (
	catalogSourceKind = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "CatalogSource"}
	csvKind           = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "ClusterServiceVersion"}
	installPlanKind   = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "InstallPlan"}
	operatorGroupKind = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1", Kind: "OperatorGroup"}
	packageKind       = schema.GroupVersionKind{Group: "packages.operators.coreos.com", Version: "v1", Kind: "PackageManifest"}
	subscriptionKind  = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "Subscription"}
)

// OLM is a cluster in which OLM runs, seen by its administrator. Its methods
// may be used concurrently.
type OLM struct {
	client client.Client
}

// New returns the OLM of a cluster that has one.
func New(config *rest.Config) (*OLM, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("prepare the client for OLM's cluster: %w", err)
	}
	made, err := client.New(config, client.Options{Scheme: scheme, Log: klog.Background()})
	if err != nil {
		return nil, fmt.Errorf("prepare the client for OLM's cluster: %w", err)
	}
	return &OLM{client: made}, nil
}

// Client returns the client that OLM's objects are made and read with. It knows
// Kubernetes' own kinds and CustomResourceDefinitions by their Go types.
func (o *OLM) Client() client.Client { return o.client }

// Apply creates the object or makes it what is given.
func (o *OLM) Apply(ctx context.Context, object *unstructured.Unstructured) error {
	err := o.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()),
		client.FieldOwner(fieldOwner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply %s: %w", describe(object), err)
	}
	return nil
}

// get reads an object of OLM's API.
func (o *OLM) get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	object := newObject(kind, namespace, name)
	if err := o.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return nil, fmt.Errorf("get %s: %w", describe(object), err)
	}
	return object, nil
}

// list reads all objects of a kind in a namespace.
func (o *OLM) list(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]unstructured.Unstructured, error) {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := o.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list the %ss in %s: %w", kind.Kind, namespace, err)
	}
	return list.Items, nil
}

func newObject(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

func describe(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetKind() + " " + object.GetName()
	}
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

// text reads a string field, which is empty if it is not set.
func text(object map[string]any, path ...string) string {
	value, _, _ := unstructured.NestedString(object, path...)
	return value
}

// entries reads a list of objects, such as conditions.
func entries(object map[string]any, path ...string) []map[string]any {
	list, _, _ := unstructured.NestedSlice(object, path...)
	var found []map[string]any
	for _, item := range list {
		if entry, ok := item.(map[string]any); ok {
			found = append(found, entry)
		}
	}
	return found
}
