// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/release"
	"github.com/chartgate/chartgate/internal/status"
)

// legacyFinalizer is the one of operator-sdk's classic Helm operator.
const legacyFinalizer = "helm.sdk.operatorframework.io/uninstall-release"

// inherit finds out whether another Helm operator served the resource until
// now, and exchanges its finalizer for ours, also on a resource that is being deleted.
func (r *Reconciler) inherit(ctx context.Context, req *Request) error {
	finalizers := req.Object.GetFinalizers()
	legacy := slices.Contains(finalizers, legacyFinalizer)
	req.Inherited = len(req.Status.History) == 0 && req.Status.ReleaseName == "" && (legacy || slices.Contains(finalizers, Finalizer))
	if !legacy {
		return nil
	}
	add := []string{Finalizer}
	if req.Object.GetDeletionTimestamp() != nil {
		add = nil // none may be added then; the old one holds until the release is gone
		if !slices.Contains(finalizers, Finalizer) {
			return nil
		}
	}
	live, err := status.PatchFinalizers(ctx, r.client, req.Object, finalizers, req.Object.GetResourceVersion(), add, []string{legacyFinalizer})
	if err != nil || live == nil {
		return err
	}
	req.Object.SetFinalizers(live.GetFinalizers())
	req.Object.SetResourceVersion(live.GetResourceVersion())
	return nil
}

// uninstall removes the release of a resource that is being deleted.
func (r *Reconciler) uninstall(ctx context.Context, req *Request) (reconcile.Result, error) {
	r.inputs.Forget(req.owner()) // no gate is asked any more
	finalizers := req.Object.GetFinalizers()
	legacy := slices.Contains(finalizers, legacyFinalizer)
	if !legacy && !slices.Contains(finalizers, Finalizer) {
		return reconcile.Result{}, nil
	}
	if req.Status.Phase != v1alpha1.PhaseUninstalling {
		message := "uninstalling release " + req.Status.ReleaseName
		b := r.builder(req).Phase(v1alpha1.PhaseUninstalling, message).Progressing(v1alpha1.ReasonUninstalling, message)
		if err := r.write(ctx, req, b); err != nil {
			return reconcile.Result{}, err
		}
	}
	if !slices.Contains(req.Object.GetFinalizers(), Finalizer) {
		req.Object.SetFinalizers(append(req.Object.GetFinalizers(), Finalizer)) // for the plugin; never sent
	}
	for _, hook := range r.hooks[:r.sourceHooks] {
		if hook.PreReconcile(ctx, req) != nil {
			req.Values, req.Secret, req.Chart = nil, nil, nil // what is stored says what to delete
			break
		}
	}
	if err := r.change.open(ctx, req); err != nil {
		if cause, _ := release.Classify(err); cause != release.CauseOwnership {
			return r.retryUninstall(ctx, req, err)
		}
	}
	if req.Spec.Release != nil && req.Spec.Release.DeletionPolicy == v1alpha1.DeletionOrphan && req.Session != nil {
		return r.orphan(ctx, req)
	}
	buffer, err := r.runPlugin(ctx, req)
	if err != nil && !buffer.Gone() {
		if ctx.Err() != nil {
			return reconcile.Result{}, ctx.Err()
		}
		return r.retryUninstall(ctx, req, err)
	}
	if legacy {
		if err := r.letGo(ctx, req); err != nil {
			return reconcile.Result{}, err
		}
	}
	r.forget(req)
	return reconcile.Result{}, nil
}

// uninstallAsNobody waits for a resource that is being deleted to say who serves
// it; after its timeout it is let go, with all that was released for it.
func (r *Reconciler) uninstallAsNobody(ctx context.Context, req *Request, err error) (reconcile.Result, error) {
	r.inputs.Forget(req.owner())
	finalizers := req.Object.GetFinalizers()
	if !slices.Contains(finalizers, legacyFinalizer) && !slices.Contains(finalizers, Finalizer) {
		return reconcile.Result{}, nil
	}
	return r.retryUninstall(ctx, req, err)
}

// letGo takes the finalizers off a resource whose release is dealt with.
func (r *Reconciler) letGo(ctx context.Context, req *Request) error {
	_, err := status.PatchFinalizers(ctx, r.client, req.Object, req.Object.GetFinalizers(), req.Object.GetResourceVersion(), nil, []string{Finalizer, legacyFinalizer})
	return err
}

// orphan lets the resource go and leaves its release in place.
func (r *Reconciler) orphan(ctx context.Context, req *Request) (reconcile.Result, error) {
	objects, err := req.Session.Orphan() //nolint:contextcheck // a session has the context of its reconcile
	if err != nil {
		return r.retryUninstall(ctx, req, err)
	}
	if err := r.letGo(ctx, req); err != nil {
		return reconcile.Result{}, err
	}
	if len(objects) > 0 {
		r.event(req, eventNormal, v1alpha1.EventReleaseOrphaned, "release %s stays in namespace %s with %s",
			req.Change.Name, req.Change.Namespace, strings.Join(objects, ", "))
	}
	r.forget(req)
	return reconcile.Result{}, nil
}
