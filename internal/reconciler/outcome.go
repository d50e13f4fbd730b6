// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/release"
	"github.com/chartgate/chartgate/internal/status"
)

const (
	eventNormal  = corev1.EventTypeNormal
	eventWarning = corev1.EventTypeWarning

	// firstRetry and lastRetry bound the exponential back-off of transient faults.
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
	// deployRetry is the least time after a failed deployment.
	deployRetry = time.Minute
	// givenUpFor is how long a change that no retry mends is not tried again where the status cannot say so.
	givenUpFor = 365 * 24 * time.Hour
	// defaultRetries of a failed deployment before the change is Stalled.
	defaultRetries = 3
)

// succeeded reports a change that is released, or a release that was repaired.
// Without a buffer, nothing but readiness can have changed.
func (r *Reconciler) succeeded(ctx context.Context, req *Request, buffer *status.Buffer) (reconcile.Result, error) {
	out := req.Session.Outcome()
	r.waits.clear(req.Object.GetUID())
	b := r.builder(req).Settled().Plugin(buffer.Conditions())
	r.handled(req, b)
	ready, err := r.observe(ctx, req, b)
	if err != nil {
		return reconcile.Result{}, err
	}
	revision := b.Status().Revision
	if ready.Ready {
		message := fmt.Sprintf("release %s revision %d is deployed and all its objects are ready", req.Change.Name, revision)
		b.Phase(v1alpha1.PhaseDeployed, message).Ready(message)
	} else {
		b.Phase(v1alpha1.PhaseDeployed, ready.Message).Unready(ready.Failed, ready.Message)
	}
	r.reportWorkload(req, b, ready)
	r.settle(ctx, req, b)
	r.reportRollback(req, b)
	r.reportDrift(req, b)
	if out.Action == release.ActionInstalled || out.Action == release.ActionUpgraded {
		r.event(req, eventNormal, v1alpha1.EventDeployed, "release %s revision %d deployed", req.Change.Name, revision)
	}
	r.reportRepair(req, out)
	if err := r.write(ctx, req, b); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: r.period}, nil
}

// handled notes which requests by annotation were acted on.
func (r *Reconciler) handled(req *Request, b *status.Builder) {
	annotations := req.Object.GetAnnotations()
	b.HandledReconcileAt(annotations[v1alpha1.AnnotationReconcileAt])
	b.HandledResume(annotations[v1alpha1.AnnotationResume])
}

// observe notes the deployed release, and judges its objects.
func (r *Reconciler) observe(ctx context.Context, req *Request, b *status.Builder) (dependents.Readiness, error) {
	out := req.Session.Outcome()
	b.Wrote(out.Established...)
	digest := req.Change.Digest()
	switch {
	case req.Standing.RolledBack:
		digest = ""
	case req.Pending && (out.Err != nil || out.RolledBackTo > 0):
		digest = req.Status.AppliedDigest
	}
	st := b.Status()
	if out.Action != release.ActionNone || int(st.Revision) != req.Standing.Revision || st.AppliedDigest != digest {
		rel, err := req.Session.Deployed()
		switch {
		case errors.Is(err, driver.ErrReleaseNotFound):
			b.NotDeployed(kept(req))
			return dependents.Readiness{Message: "nothing is released"}, nil
		case err != nil:
			return dependents.Readiness{}, err
		}
		b.Deployed(released(rel), digest)
		if out.RolledBackTo > 0 || out.Action == release.ActionInstalled || out.Action == release.ActionUpgraded {
			b.Wrote(v1alpha1.HistoryEntry{Revision: int64(rel.Version), Digest: release.PayloadDigest(rel)})
		}
	}
	refs, err := req.Session.Objects()
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return dependents.Readiness{Message: "nothing is released"}, nil
	}
	if err != nil {
		return dependents.Readiness{}, err
	}
	r.tracker.Retain(req.owner(), req.Identity, refs, req.Session.Basis())
	return r.tracker.Readiness(ctx, req.owner(), req.Identity, refs), nil
}

func (r *Reconciler) reportRepair(req *Request, out release.Outcome) {
	if out.Action == release.ActionNone && len(out.Repaired) > 0 {
		r.event(req, eventNormal, v1alpha1.EventDriftCorrected, "%s", strings.Join(out.Repaired, ", "))
	}
}

// reportRollback shows that a user's helm rollback is respected, or no longer is.
func (r *Reconciler) reportRollback(req *Request, b *status.Builder) {
	if !req.Standing.RolledBack {
		b.Drop(v1alpha1.ConditionRolledBack)
		return
	}
	message := fmt.Sprintf("revision %d was made by helm rollback and is kept; the spec's change is released when the spec changes or annotation %s does",
		req.Standing.Revision, v1alpha1.AnnotationResume)
	if !meta.IsStatusConditionTrue(req.Status.Conditions, v1alpha1.ConditionRolledBack) {
		r.event(req, eventNormal, v1alpha1.EventRolledBack, "%s", message)
	}
	b.Condition(v1alpha1.ConditionRolledBack, metav1.ConditionTrue, v1alpha1.ReasonHelmRollback, message)
}

// reportDrift shows what differs from the release where that is only to be reported.
func (r *Reconciler) reportDrift(req *Request, b *status.Builder) {
	if req.Change.Settings.Drift != v1alpha1.DriftReport {
		b.Drop(v1alpha1.ConditionDrifted)
		return
	}
	drift := r.tracker.Drift(req.owner())
	if len(drift) == 0 {
		b.Condition(v1alpha1.ConditionDrifted, metav1.ConditionFalse, v1alpha1.ReasonNoDrift, "")
		return
	}
	b.Condition(v1alpha1.ConditionDrifted, metav1.ConditionTrue, v1alpha1.ReasonDriftDetected, strings.Join(drift, "; "))
}

// failed reports a change that could not be released.
func (r *Reconciler) failed(ctx context.Context, req *Request, buffer *status.Buffer, err error) (reconcile.Result, error) {
	out := req.Session.Outcome()
	if out.Err == nil {
		out.Err = err
	}
	b := r.builder(req).Plugin(buffer.Conditions())
	r.handled(req, b)
	if req.Pending {
		b.Pending(req.Change.Digest())
		if _, obsErr := r.observe(ctx, req, b); obsErr != nil {
			return reconcile.Result{}, obsErr
		}
	}
	b.Failed()
	cause, terminal := release.Classify(out.Err)
	failures := b.Status().Failures
	message := r.explain(ctx, req, out.Err)
	if out.RolledBackTo > 0 {
		message += fmt.Sprintf("; rolled back to revision %d", out.RolledBackTo)
	}
	reason := reasonOf(cause)
	if !terminal && out.Attempted && failures > retries(req) && cause != release.CauseForbidden {
		terminal, reason = true, v1alpha1.ReasonRetriesExhausted
	}
	phase := req.Status.Phase
	if req.Pending && (terminal || out.Attempted) {
		phase = v1alpha1.PhaseDeploymentFailed
	}
	b.Phase(phase, message)
	var result reconcile.Result
	if terminal {
		b.Stalled(reason, message)
		r.waits.set(req.Object.GetUID(), req.Change.Digest(), r.clock.Now().Add(givenUpFor))
		if cause == release.CauseOwnership {
			result.RequeueAfter = lastRetry
			r.waits.clear(req.Object.GetUID())
		}
	} else {
		b.Progressing(reason, message)
		result.RequeueAfter = backOff(failures, out.Attempted)
		r.waits.set(req.Object.GetUID(), req.Change.Digest(), r.clock.Now().Add(result.RequeueAfter))
	}
	if req.Session.Unsettled() { // whatever becomes of the change
		result.RequeueAfter = sooner(result.RequeueAfter, backOff(failures, false))
	}
	if req.Pending && phase != req.Status.Phase {
		r.event(req, eventWarning, v1alpha1.EventDeploymentFailed, "%s", message)
	}
	if out.RolledBackTo > 0 {
		r.event(req, eventWarning, v1alpha1.EventRolledBack, "release %s was rolled back to revision %d", req.Change.Name, out.RolledBackTo)
	}
	err = r.write(ctx, req, b)
	if err != nil && terminal {
		r.waits.clear(req.Object.GetUID()) // what the status doesn't say is found out again
	}
	return result, err
}

// explain puts an error into one line without secrets, with what mends it where a right is missing, and logs it.
func (r *Reconciler) explain(ctx context.Context, req *Request, err error) string {
	text := err.Error()
	if req.Session != nil {
		text = req.Session.Redact(err).Error()
	}
	message := strings.Join(strings.Fields(r.acting.explain(ctx, req.Identity, err, text)), " ")
	log.FromContext(ctx).Info("Not done", "release", req.Change.Name, "reason", message)
	return message
}

// suspend leaves everything as it is.
func (r *Reconciler) suspend(ctx context.Context, req *Request) (reconcile.Result, error) {
	message := "spec.release.suspend is set: changes and repair wait, a deletion does not"
	b := r.builder(req)
	if req.Pending {
		b.Pending(req.Change.Digest())
		b.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSuspended, message)
	}
	b.Condition(v1alpha1.ConditionReconciling, metav1.ConditionFalse, v1alpha1.ReasonSuspended, message)
	b.Condition(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonSuspended, "")
	b.Phase(cmp.Or(req.Status.Phase, v1alpha1.PhasePending), message)
	return reconcile.Result{}, r.write(ctx, req, b)
}

// repairOnly keeps up what is released while a change that failed waits.
func (r *Reconciler) repairOnly(ctx context.Context, req *Request, wait time.Duration) (reconcile.Result, error) {
	result, err := r.repair(ctx, req, r.builder(req))
	if result.RequeueAfter = wait; r.period > 0 {
		result.RequeueAfter = min(wait, r.period)
	}
	return result, err
}

// repair puts the deployed release's objects back, if there is a release. A
// rollback that did not get to its end is finished.
func (r *Reconciler) repair(ctx context.Context, req *Request, b *status.Builder) (reconcile.Result, error) {
	result := reconcile.Result{RequeueAfter: r.period}
	if req.Session.Unfinished() {
		if err := req.Session.FinishRollback(); err != nil { //nolint:contextcheck // a session has the context of its reconcile
			return reconcile.Result{}, err
		}
		if _, err := r.observe(ctx, req, b); err != nil {
			return reconcile.Result{}, err
		}
		r.event(req, eventWarning, v1alpha1.EventRolledBack, "release %s was rolled back to revision %d", req.Change.Name, req.Session.Outcome().RolledBackTo)
		return result, r.write(ctx, req, b)
	}
	if _, unmoved := req.Session.Unmoved(); unmoved {
		r.reportReplicas(req, b)
		return result, r.write(ctx, req, b)
	}
	rel, err := req.Session.Deployed()
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return result, r.write(ctx, req, b)
	}
	if err == nil {
		err = req.Session.Reconcile(rel)
	}
	if cause, _ := release.Classify(err); err != nil && cause == release.CauseForbidden && ctx.Err() == nil {
		message := r.explain(ctx, req, err)
		b.Failed().Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonForbidden, message)
		return reconcile.Result{RequeueAfter: backOff(b.Status().Failures, false)}, r.write(ctx, req, b)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	r.reportRepair(req, req.Session.Outcome())
	r.reportDrift(req, b)
	if refs, err := req.Session.Objects(); err == nil && rel.Version == req.Standing.Revision {
		r.tracker.Retain(req.owner(), req.Identity, refs, req.Session.Basis())
	}
	r.reportReplicas(req, b)
	return result, r.write(ctx, req, b)
}

// refuse reports a resource that did not get through the hooks.
func (r *Reconciler) refuse(ctx context.Context, req *Request, err error) (reconcile.Result, error) {
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	if missing, ok := errors.AsType[*sourceError](err); ok {
		return r.keepUp(ctx, req, missing)
	}
	message := r.explain(ctx, req, err)
	b := r.builder(req).Phase(cmp.Or(req.Status.Phase, v1alpha1.PhasePending), message)
	if stall, ok := asStall(err); ok {
		// What the change is can't be told, so none is pending: one that was, and comes back, was not tried.
		if req.Status.Pending != nil {
			r.unplan(ctx, req)
		}
		b.Settled().Stalled(stall.reason, message)
		return reconcile.Result{}, r.write(ctx, req, b)
	}
	if locked, ok := errors.AsType[*release.LockedError](err); ok {
		b.Progressing(v1alpha1.ReasonReleaseLocked, message)
		return reconcile.Result{RequeueAfter: max(locked.Until.Sub(r.clock.Now()), firstRetry)}, r.write(ctx, req, b)
	}
	cause, terminal := release.Classify(err)
	if terminal {
		b.Stalled(reasonOf(cause), message)
		return reconcile.Result{RequeueAfter: lastRetry}, r.write(ctx, req, b)
	}
	b.Failed().Progressing(reasonOf(cause), message)
	return reconcile.Result{RequeueAfter: backOff(b.Status().Failures, false)}, r.write(ctx, req, b)
}

// retryUninstall reports an uninstall that failed, and tries again later. One that
// nobody has the right to any more is given up after the resource's timeout.
func (r *Reconciler) retryUninstall(ctx context.Context, req *Request, err error) (reconcile.Result, error) {
	wait := lastRetry
	if r.powerless(req, err) {
		if wait = r.patience(ctx, req); wait == 0 {
			return r.abandon(ctx, req, err)
		}
	}
	cause, _ := release.Classify(err)
	message := r.explain(ctx, req, err)
	b := r.builder(req).Failed()
	b.Phase(v1alpha1.PhaseUninstalling, message).Progressing(reasonOf(cause), message)
	b.Condition(v1alpha1.ConditionReleaseFailed, metav1.ConditionTrue, v1alpha1.ReasonUninstallError, message)
	return reconcile.Result{RequeueAfter: min(backOff(b.Status().Failures, false), wait)}, r.write(ctx, req, b)
}

// event tells people of a transition.
func (r *Reconciler) event(req *Request, eventType, reason, format string, args ...any) {
	r.recorder.Eventf(req.Object, eventType, reason, format, args...)
}

func released(rel *helmrelease.Release) status.Release {
	out := status.Release{Revision: int64(rel.Version)}
	if rel.Chart != nil && rel.Chart.Metadata != nil {
		out.Chart, out.Version, out.AppVersion = rel.Chart.Metadata.Name, rel.Chart.Metadata.Version, rel.Chart.Metadata.AppVersion
	}
	return out
}

// reasonOf is the condition reason of a cause.
func reasonOf(cause release.Cause) string {
	switch cause {
	case release.CauseValues:
		return v1alpha1.ReasonInvalidValues
	case release.CauseRender:
		return v1alpha1.ReasonRenderFailed
	case release.CauseObject:
		return v1alpha1.ReasonInvalidObject
	case release.CauseOwnership:
		return v1alpha1.ReasonOwnershipConflict
	case release.CauseForbidden:
		return v1alpha1.ReasonForbidden
	case release.CauseOther:
		return v1alpha1.ReasonRetrying
	}
	return v1alpha1.ReasonRetrying
}

// backOff is how long to wait after the n-th failure in a row.
func backOff(n int64, deployment bool) time.Duration {
	wait := firstRetry
	for ; n > 1 && wait < lastRetry; n-- {
		wait *= 2
	}
	if deployment {
		wait = max(wait, deployRetry)
	}
	return min(wait, lastRetry)
}

func retries(req *Request) int64 {
	if req.Spec.Release != nil && req.Spec.Release.Retries != nil {
		return int64(*req.Spec.Release.Retries)
	}
	return defaultRetries
}

// oneLine makes an error fit a condition.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
