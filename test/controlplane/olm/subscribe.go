// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// Namespace creates a namespace with labels if it isn't there yet, and waits
// until Pods can be created in it.
func (o *OLM) Namespace(ctx context.Context, name string, labels map[string]string) error {
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	namespace.SetName(name)
	namespace.SetLabels(maps.Clone(labels))
	if err := o.Apply(ctx, namespace); err != nil {
		return err
	}
	return supervise.WaitFor(ctx, "the default ServiceAccount of "+name, func(ctx context.Context) error {
		return o.client.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
	})
}

// OperatorGroup lets operators in a namespace watch the target namespaces, or
// all namespaces if there are none. It has the namespace's name.
func (o *OLM) OperatorGroup(ctx context.Context, namespace string, targets ...string) error {
	group := newObject(operatorGroupKind, namespace, namespace)
	spec := map[string]any{"upgradeStrategy": "Default"}
	if len(targets) > 0 {
		spec["targetNamespaces"] = anySlice(targets)
	}
	group.Object["spec"] = spec
	return o.Apply(ctx, group)
}

// A CatalogSource is a catalog that a cluster knows.
type CatalogSource struct {
	// Namespace is where Subscriptions may use the catalog, or
	// [SystemNamespace] for all namespaces.
	Namespace, Name string
	// Image is what a Pod serves. Address is where the catalog is served
	// already. One of them is given.
	Image, Address string
}

// CatalogSource applies a CatalogSource and waits until OLM reads the catalog.
// Applied again with another image or address it replaces the catalog.
func (o *OLM) CatalogSource(ctx context.Context, source CatalogSource) error {
	object := newObject(catalogSourceKind, source.Namespace, source.Name)
	spec := map[string]any{"sourceType": "grpc", "displayName": source.Name, "publisher": "Chartgate's tests"}
	switch {
	case (source.Image == "") == (source.Address == ""):
		return fmt.Errorf("%s: give an image or an address", describe(object))
	case source.Image != "":
		spec["image"] = source.Image
		spec["grpcPodConfig"] = map[string]any{"securityContextConfig": "restricted"}
	default:
		spec["address"] = source.Address
	}
	object.Object["spec"] = spec
	if err := o.Apply(ctx, object); err != nil {
		return err
	}
	err := supervise.WaitFor(ctx, describe(object), func(ctx context.Context) error {
		read, err := o.get(ctx, catalogSourceKind, source.Namespace, source.Name)
		if err != nil {
			return err
		}
		connection := func(field string) string { return text(read.Object, "status", "connectionState", field) }
		if state := connection("lastObservedState"); state != "READY" {
			return fmt.Errorf("its connection is %q: %s", state, text(read.Object, "status", "message"))
		}
		// READY may be said of the catalog before this one.
		if source.Image != "" {
			return o.catalogPodReady(ctx, source)
		}
		if address := connection("address"); address != source.Address {
			return fmt.Errorf("it is still connected to %s", address)
		}
		return nil
	})
	return o.explain(ctx, err, source.Namespace)
}

// catalogPodReady tells whether a catalog's image is served, and no other.
func (o *OLM) catalogPodReady(ctx context.Context, source CatalogSource) error {
	var pods corev1.PodList
	err := o.client.List(ctx, &pods, client.InNamespace(source.Namespace), client.MatchingLabels{"olm.catalogSource": source.Name})
	if err != nil {
		return fmt.Errorf("list the catalog's Pods: %w", err)
	}
	if len(pods.Items) == 0 {
		return errors.New("no Pod serves it")
	}
	for _, pod := range pods.Items {
		if image := pod.Spec.Containers[0].Image; image != source.Image {
			return fmt.Errorf("the Pod %s still serves %s", pod.Name, image)
		}
		ready := func(condition corev1.PodCondition) bool {
			return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
		}
		if !slices.ContainsFunc(pod.Status.Conditions, ready) {
			return fmt.Errorf("the Pod %s is not ready", pod.Name)
		}
	}
	return nil
}

// An Approval says who approves a Subscription's InstallPlans.
type Approval string

// Approvals of a [Subscription].
const (
	Automatic Approval = "Automatic"
	Manual    Approval = "Manual"
)

// A Subscription asks for an operator and its upgrades.
type Subscription struct {
	Namespace string
	// Name defaults to the package's.
	Name, Package, Channel string
	// Source and SourceNamespace name the CatalogSource. The latter defaults to
	// Namespace.
	Source, SourceNamespace string
	// Approval defaults to Automatic.
	Approval Approval
	// StartingCSV is the version to begin with, instead of the channel's newest.
	StartingCSV string
	// Env is given to the operator's containers.
	Env map[string]string
}

func (s Subscription) name() string {
	if s.Name != "" {
		return s.Name
	}
	return s.Package
}

// Subscribe applies a Subscription.
func (o *OLM) Subscribe(ctx context.Context, subscription Subscription) error {
	object := newObject(subscriptionKind, subscription.Namespace, subscription.name())
	spec := map[string]any{
		"name":                subscription.Package,
		"channel":             subscription.Channel,
		"source":              subscription.Source,
		"sourceNamespace":     subscription.SourceNamespace,
		"installPlanApproval": string(subscription.Approval),
	}
	if subscription.SourceNamespace == "" {
		spec["sourceNamespace"] = subscription.Namespace
	}
	if subscription.Approval == "" {
		spec["installPlanApproval"] = string(Automatic)
	}
	if subscription.StartingCSV != "" {
		spec["startingCSV"] = subscription.StartingCSV
	}
	if len(subscription.Env) > 0 {
		spec["config"] = map[string]any{"env": environment(subscription.Env)}
	}
	object.Object["spec"] = spec
	return o.Apply(ctx, object)
}

// WaitInstalled waits until a Subscription is at the newest version that it is
// offered and that version's ClusterServiceVersion is Succeeded, and returns
// the name of the latter.
func (o *OLM) WaitInstalled(ctx context.Context, namespace, subscription string) (csv string, err error) {
	err = supervise.WaitFor(ctx, fmt.Sprintf("the operator of Subscription %s/%s", namespace, subscription), func(ctx context.Context) error {
		object, err := o.get(ctx, subscriptionKind, namespace, subscription)
		if err != nil {
			return err
		}
		csv = text(object.Object, "status", "installedCSV")
		if state := text(object.Object, "status", "state"); csv == "" || state != "AtLatestKnown" {
			return fmt.Errorf("its state is %q, its installed version %q", state, csv)
		}
		return o.inPhase(ctx, namespace, csv, "Succeeded")
	})
	return csv, o.explain(ctx, err, namespace)
}

// WaitCSV waits until a ClusterServiceVersion is in a phase, such as Succeeded.
func (o *OLM) WaitCSV(ctx context.Context, namespace, name, phase string) error {
	err := supervise.WaitFor(ctx, fmt.Sprintf("the phase %s of ClusterServiceVersion %s/%s", phase, namespace, name), func(ctx context.Context) error {
		return o.inPhase(ctx, namespace, name, phase)
	})
	return o.explain(ctx, err, namespace)
}

func (o *OLM) inPhase(ctx context.Context, namespace, name, phase string) error {
	object, err := o.get(ctx, csvKind, namespace, name)
	if err != nil {
		return err
	}
	if got := text(object.Object, "status", "phase"); got != phase {
		return fmt.Errorf("%s is in phase %q, not %s: %s", describe(object), got, phase, text(object.Object, "status", "message"))
	}
	return nil
}

// WaitInstallPlan waits until a Subscription has an InstallPlan that waits for
// approval of a version, and returns its name.
func (o *OLM) WaitInstallPlan(ctx context.Context, namespace, csv string) (plan string, err error) {
	err = supervise.WaitFor(ctx, fmt.Sprintf("an InstallPlan in %s that waits for the approval of %s", namespace, csv), func(ctx context.Context) error {
		plans, err := o.list(ctx, installPlanKind, namespace)
		if err != nil {
			return err
		}
		for _, object := range plans {
			names, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "clusterServiceVersionNames")
			for _, name := range names {
				if name == csv && text(object.Object, "status", "phase") == "RequiresApproval" {
					plan = object.GetName()
					return nil
				}
			}
		}
		return fmt.Errorf("none of %d InstallPlans does", len(plans))
	})
	return plan, o.explain(ctx, err, namespace)
}

// Approve approves an InstallPlan.
func (o *OLM) Approve(ctx context.Context, namespace, plan string) error {
	object := newObject(installPlanKind, namespace, plan)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"approved":true}}`))
	if err := o.client.Patch(ctx, object, patch); err != nil {
		return fmt.Errorf("approve %s: %w", describe(object), err)
	}
	return nil
}

// WaitPackage waits until OLM's package server lists a package for a namespace,
// and returns the names of all that it lists.
func (o *OLM) WaitPackage(ctx context.Context, namespace, name string) (packages []string, err error) {
	err = supervise.WaitFor(ctx, fmt.Sprintf("the package %s in %s", name, namespace), func(ctx context.Context) error {
		manifests, err := o.list(ctx, packageKind, namespace)
		if err != nil {
			return err
		}
		packages = nil
		for _, manifest := range manifests {
			packages = append(packages, manifest.GetName())
		}
		if !slices.Contains(packages, name) {
			return fmt.Errorf("the packages are %q", packages)
		}
		return nil
	})
	return packages, o.explain(ctx, err, namespace)
}

func environment(variables map[string]string) []any {
	var list []any
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		list = append(list, map[string]any{"name": name, "value": variables[name]})
	}
	return list
}

func anySlice(items []string) []any {
	list := make([]any, len(items))
	for i, item := range items {
		list[i] = item
	}
	return list
}
