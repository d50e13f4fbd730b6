// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// ownerLabel is set by OLM on what it makes for a ClusterServiceVersion.
const ownerLabel = "olm.owner"

// Remove removes an operator: its Subscription, the ClusterServiceVersions that
// came from it and, if no other Subscription is in the namespace, the
// OperatorGroup that [OLM.OperatorGroup] made. It waits until the operator's
// Deployments and rights are gone. The definitions of the operator's kinds and
// their objects stay.
func (o *OLM) Remove(ctx context.Context, namespace, subscription string) error {
	object, err := o.get(ctx, subscriptionKind, namespace, subscription)
	if err != nil {
		return err
	}
	var versions []string
	for _, field := range []string{"installedCSV", "currentCSV"} {
		if name := text(object.Object, "status", field); name != "" && !slices.Contains(versions, name) {
			versions = append(versions, name)
		}
	}
	if err := o.waitPlanIdle(ctx, namespace, text(object.Object, "status", "installPlanRef", "name")); err != nil {
		return err
	}
	if err := o.delete(ctx, object); err != nil {
		return err
	}
	for _, name := range versions {
		err := supervise.WaitFor(ctx, fmt.Sprintf("the end of what belongs to ClusterServiceVersion %s/%s", namespace, name), func(ctx context.Context) error {
			// OLM may have made it again from an InstallPlan that it did not
			// know to be complete.
			if err := o.delete(ctx, newObject(csvKind, namespace, name)); err != nil {
				return err
			}
			return o.gone(ctx, namespace, name)
		})
		if err := o.explain(ctx, err, namespace); err != nil {
			return err
		}
	}
	others, err := o.list(ctx, subscriptionKind, namespace)
	if err != nil || len(others) > 0 {
		return err
	}
	return o.delete(ctx, newObject(operatorGroupKind, namespace, namespace))
}

// waitPlanIdle waits until OLM is not about to carry out an InstallPlan, from
// which it would make again what is deleted.
func (o *OLM) waitPlanIdle(ctx context.Context, namespace, plan string) error {
	if plan == "" {
		return nil
	}
	err := supervise.WaitFor(ctx, fmt.Sprintf("the end of InstallPlan %s/%s", namespace, plan), func(ctx context.Context) error {
		object, err := o.get(ctx, installPlanKind, namespace, plan)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		if phase := text(object.Object, "status", "phase"); phase == "Planning" || phase == "Installing" {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
	return o.explain(ctx, err, namespace)
}

// delete deletes an object, which may be gone.
func (o *OLM) delete(ctx context.Context, object *unstructured.Unstructured) error {
	if err := o.client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", describe(object), err)
	}
	return nil
}

// gone tells what is left of a ClusterServiceVersion.
func (o *OLM) gone(ctx context.Context, namespace, csv string) error {
	_, err := o.get(ctx, csvKind, namespace, csv)
	if err == nil {
		return fmt.Errorf("%s %s is left", csvKind.Kind, csv)
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	for _, kind := range []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("Deployment"),
		rbacv1.SchemeGroupVersion.WithKind("Role"),
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
		rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
		rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
	} {
		owned, err := o.list(ctx, kind, "")
		if err != nil {
			return err
		}
		for _, object := range owned {
			labels := object.GetLabels()
			if labels[ownerLabel] == csv && labels[ownerLabel+".namespace"] == namespace {
				return fmt.Errorf("%s is left", describe(&object))
			}
		}
	}
	return nil
}
