// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"errors"
	"slices"
	"time"

	plugin "github.com/operator-framework/helm-operator-plugins/pkg/reconciler"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/inputs"
	"github.com/chartgate/chartgate/internal/release"
	"github.com/chartgate/chartgate/internal/status"
	"github.com/chartgate/chartgate/internal/translate"
)

// Reconciler reconciles the resources of one kind.
type Reconciler struct {
	gvk    schema.GroupVersionKind
	cache  client.Reader
	plugin *plugin.Reconciler
	hooks  []PreReconcile
	// sourceHooks is how many of the hooks come before the change: those that an uninstall runs, too.
	sourceHooks int
	change      changeHook
	acting      acting
	engine      *release.Engine
	reserved    *reservedFields
	selector    labels.Selector
	tracker     *dependents.Tracker
	inputs      *inputs.Inputs
	plans       *plans
	client      client.Client
	observer    translate.Observer // nil for kinds whose status tells of no workload
	writer      *status.Writer
	waits       *waits
	recorder    record.EventRecorder
	period      time.Duration
	clock       clock.PassiveClock
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile takes the resource one step towards its spec.
func (r *Reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(r.gvk)
	if err := r.cache.Get(ctx, key.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			r.forgetOwner(dependents.Owner{GroupKind: r.gvk.GroupKind(), NamespacedName: key.NamespacedName})
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, err
	}
	if !r.selector.Matches(labels.Set(obj.GetLabels())) {
		return reconcile.Result{}, nil
	}
	r.writer.Freshen(obj)
	req := &Request{Object: obj, Status: status.Read(obj)}
	declared, err := r.reserved.Declared()
	if err != nil {
		return reconcile.Result{}, err
	}
	var nobody, unread error
	req.Identity, nobody = r.acting.as(obj, declared)
	req.Nobody = nobody != nil
	if declared {
		req.Spec, unread = readSpec(obj)
	}
	if err := r.inherit(ctx, req); err != nil {
		return reconcile.Result{}, err
	}
	switch deleted := obj.GetDeletionTimestamp() != nil; {
	case deleted && req.Nobody:
		return r.uninstallAsNobody(ctx, req, nobody)
	case deleted:
		return r.uninstall(ctx, req)
	case req.Nobody:
		return r.refuse(ctx, req, nobody)
	case unread != nil:
		return r.refuse(ctx, req, unread)
	}
	for _, hook := range r.hooks {
		if err := hook.PreReconcile(ctx, req); err != nil {
			return r.refuse(ctx, req, err)
		}
	}
	result, err := r.release(ctx, req)
	if err == nil {
		result.RequeueAfter = sooner(result.RequeueAfter, req.recheck())
	}
	return result, err
}

// release goes on from the hooks: it holds, repairs, or brings the change about.
func (r *Reconciler) release(ctx context.Context, req *Request) (reconcile.Result, error) {
	switch {
	case suspended(req):
		return r.suspend(ctx, req)
	case req.Pending && r.givenUp(req):
		return r.repairOnly(ctx, req, r.period)
	case req.Pending && req.Held && !r.altersNothing(ctx, req):
		return r.hold(ctx, req)
	case req.Pending && r.backsOff(req) > 0:
		return r.repairOnly(ctx, req, r.backsOff(req))
	case req.Pending:
		plan, err := req.Session.Plan()
		if err != nil {
			return r.failed(ctx, req, nil, err)
		}
		if plan.Same {
			break
		}
		if shown := req.Status.Pending; shown != nil && shown.Digest != req.Change.Digest() {
			r.unplan(ctx, req)
		}
		if err := r.begin(ctx, req, plan); err != nil {
			return reconcile.Result{}, err
		}
	case r.idle(req):
		return r.succeeded(ctx, req, nil)
	}
	buffer, err := r.runPlugin(ctx, req)
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	if err != nil {
		return r.failed(ctx, req, buffer, err)
	}
	return r.succeeded(ctx, req, buffer)
}

// idle tells whether there is nothing to do but to judge readiness: the change
// is released, none of its objects was touched, and the status says so.
func (r *Reconciler) idle(req *Request) bool {
	st := req.Status
	if _, unmoved := req.Session.Unmoved(); !unmoved || st.Pending != nil || st.Failures > 0 || int(st.Revision) != req.Standing.Revision {
		return false
	}
	return slices.Contains(req.Object.GetFinalizers(), Finalizer) &&
		meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionDeployed) &&
		meta.IsStatusConditionFalse(st.Conditions, v1alpha1.ConditionReleaseFailed) &&
		meta.IsStatusConditionFalse(st.Conditions, v1alpha1.ConditionIrreconcilable)
}

// givenUp tells whether this very change failed in a way that trying again does not mend.
func (r *Reconciler) givenUp(req *Request) bool {
	st := req.Status
	if st.Pending == nil || st.Pending.Digest != req.Change.Digest() {
		return false
	}
	if asked(req) {
		return false
	}
	stalled := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionStalled)
	return stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.Reason != v1alpha1.ReasonOwnershipConflict &&
		!slices.Contains(gateReasons, stalled.Reason)
}

// backsOff tells how long this very change, which failed, is to wait before it is tried again.
func (r *Reconciler) backsOff(req *Request) time.Duration {
	if asked(req) {
		return 0
	}
	return r.waits.left(req.Object.GetUID(), req.Change.Digest(), r.clock.Now())
}

// suspended tells whether changes and repair are to wait.
func suspended(req *Request) bool { return req.Spec.Release != nil && req.Spec.Release.Suspend }

// asked tells whether somebody asks for a reconcile by annotation.
func asked(req *Request) bool {
	return req.Object.GetAnnotations()[v1alpha1.AnnotationReconcileAt] != req.Status.LastHandledReconcileAt
}

// begin says that the change is being released, before anything is, and puts
// on record what will be written.
func (r *Reconciler) begin(ctx context.Context, req *Request, plan release.Plan) error {
	entry := v1alpha1.HistoryEntry{Revision: int64(plan.Revision), Digest: plan.Payload}
	b := r.builder(req).Pending(req.Change.Digest()).Wrote(entry)
	req.Session.Begun(entry)
	message := "installing release " + req.Change.Name
	if req.Status.Revision > 0 {
		message = "upgrading release " + req.Change.Name
	}
	r.initializing(req)
	if req.Status.Failures == 0 {
		b.Phase(v1alpha1.PhaseDeploying, message).Progressing(v1alpha1.ReasonProgressing, message)
	}
	return r.write(ctx, req, b)
}

// initializing tells that a resource is taken on.
func (r *Reconciler) initializing(req *Request) {
	if req.Status.Phase == "" {
		r.event(req, eventNormal, v1alpha1.EventInitializing, "release %s will be installed in namespace %s", req.Change.Name, req.Change.Namespace)
	}
}

// forget drops all that is remembered of a resource.
func (r *Reconciler) forget(req *Request) {
	r.forgetOwner(req.owner())
	r.writer.Forget(req.Object.GetUID())
	r.waits.clear(req.Object.GetUID())
}

func (r *Reconciler) forgetOwner(owner dependents.Owner) {
	r.tracker.Forget(owner)
	r.engine.Forget(owner)
	r.inputs.Forget(owner)
	r.plans.forget(owner)
}

func (r *Reconciler) builder(req *Request) *status.Builder {
	b := status.NewBuilder(req.Status, req.Object.GetGeneration(), r.clock.Now())
	if req.Change.Name != "" {
		b.ReleaseAt(req.Change.Namespace, req.Change.Name)
	}
	req.Gating.report(req, b)
	reportChart(req, b)
	return b
}

// write sends what the builder made, and makes it the request's status.
func (r *Reconciler) write(ctx context.Context, req *Request, b *status.Builder) error {
	before, next := req.Status, b.Status()
	changed, err := r.writer.Write(ctx, req.Object, next, b.OwnFields())
	if err != nil {
		r.event(req, eventWarning, v1alpha1.EventStatusUpdateFailed, "the status could not be written: %v", err)
		return err
	}
	req.Status = next
	if changed {
		r.tell(req, before, next)
	}
	return nil
}

// asStall returns the stallError in err, if there is one.
func asStall(err error) (*stallError, bool) {
	var s *stallError
	ok := errors.As(err, &s)
	return s, ok
}
