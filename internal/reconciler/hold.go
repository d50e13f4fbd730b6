// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/status"
)

// altersNothing tells whether a held change, which is rendered for people to
// approve, turns out to render to just what is deployed: then there is nothing to hold.
func (r *Reconciler) altersNothing(ctx context.Context, req *Request) bool {
	if !req.Gating.awaitsApproval() || req.Standing.Revision == 0 || r.backsOff(req) > 0 || r.plans.current(ctx, req) {
		return false
	}
	plan, err := req.Session.Plan()
	if err != nil || !plan.Same {
		return false // an error is reported when it is held
	}
	req.Held = false
	return true
}

// hold keeps a change waiting for its gates, and repairs what is released.
func (r *Reconciler) hold(ctx context.Context, req *Request) (reconcile.Result, error) {
	b := r.builder(req).Pending(req.Change.Digest())
	message := req.Gating.waiting()
	recheck := time.Duration(0)
	if req.Gating.awaitsApproval() {
		if left := r.backsOff(req); left > 0 {
			return r.repairOnly(ctx, req, left) // it can't be rendered yet
		}
		failure, err := r.plan(ctx, req)
		switch {
		case failure != nil:
			return r.failed(ctx, req, nil, failure)
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), ctx.Err() != nil:
			return reconcile.Result{}, err
		case err != nil:
			message += "; what the change would do can't be shown: " + r.explain(ctx, req, err)
			recheck = sooner(recheck, deployRetry)
		default:
			b.Planned(req.Gating.Plan)
		}
	} else if req.Status.Pending != nil && req.Status.Pending.Digest != req.Change.Digest() {
		r.unplan(ctx, req)
	}
	phase := v1alpha1.PhasePending
	if req.Status.Revision > 0 {
		phase = v1alpha1.PhaseDeployed
	}
	b.Phase(phase, message)
	r.initializing(req)
	if fault := req.Gating.Fault; fault != nil {
		b.Stalled(fault.reason, oneLine(fault))
	} else {
		b.Progressing(v1alpha1.ReasonWaitingForGates, message)
	}
	result, err := r.repair(ctx, req, b)
	result.RequeueAfter = sooner(result.RequeueAfter, recheck)
	return result, err
}

// plan shows people what the change would do, unless that is shown already. A
// failure is that of the change itself, which can't be rendered.
func (r *Reconciler) plan(ctx context.Context, req *Request) (failure, err error) {
	if r.plans.current(ctx, req) {
		return nil, nil
	}
	plan, failure := req.Session.Plan()
	if failure != nil {
		return failure, nil
	}
	r.waits.clear(req.Object.GetUID())
	return nil, r.plans.publish(ctx, req, plan)
}

// settle ends what was held: the plan goes, and of the approvals those of what is applied stay.
func (r *Reconciler) settle(ctx context.Context, req *Request, b *status.Builder) {
	r.unplan(ctx, req)
	if applied := b.Status().AppliedDigest; applied != "" {
		b.KeepApprovals(applied)
	}
	if req.Gating != nil && req.Gating.Fault != nil {
		b.Condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, req.Gating.Fault.reason, oneLine(req.Gating.Fault))
	}
}

// unplan takes away the plan of a change that is not held any more, if there can be one.
func (r *Reconciler) unplan(ctx context.Context, req *Request) {
	shown := req.Status.Pending != nil && req.Status.Pending.Plan != ""
	if (req.Gating == nil || req.Gating.Plan == "") && !shown {
		return
	}
	if err := r.plans.clear(ctx, req); err != nil {
		log.FromContext(ctx).Info("The plan stays for now", "reason", oneLine(err))
	}
}

// kept is the applied digest that stays on record while there is no release:
// that of the change that is being put back, so that no gate holds it.
func kept(req *Request) string {
	if req.Status.AppliedDigest == req.Change.Digest() {
		return req.Status.AppliedDigest
	}
	return ""
}
