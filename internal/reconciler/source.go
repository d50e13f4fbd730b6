// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/chartsource"
	"github.com/chartgate/chartgate/internal/status"
)

// resolvedField of the status says which chart was found in a repository.
const resolvedField = "resolved"

// reportChart shows which chart was found in a repository, and whether the
// repository could be asked for a newer one. Other charts have nothing to tell.
func reportChart(req *Request, b *status.Builder) {
	if req.Chart == nil || req.Chart.Origin.Version == "" {
		return
	}
	origin := req.Chart.Origin
	resolved := map[string]any{
		"version": origin.Version, "digest": origin.Archive, "time": origin.Time.UTC().Format(time.RFC3339),
	}
	if origin.SignedBy != "" {
		resolved["signedBy"] = origin.SignedBy
	}
	b.Own(map[string]any{resolvedField: resolved})
	if req.Chart.Stale == nil {
		b.Drop(v1alpha1.ConditionChartStale)
		return
	}
	reason := v1alpha1.ReasonRepositoryUnreachable
	if e, ok := errors.AsType[*chartsource.Error](req.Chart.Stale); ok {
		reason = e.Reason
	}
	b.Condition(v1alpha1.ConditionChartStale, metav1.ConditionTrue, reason, "the chart is the one that was found last: "+oneLine(req.Chart.Stale))
}

// keepUp reports that it can't be told what is to be released, and puts back
// what is released where somebody else changed it.
func (r *Reconciler) keepUp(ctx context.Context, req *Request, missing *sourceError) (reconcile.Result, error) {
	req.Chart = nil
	sessionErr := r.reopen(ctx, req)
	message := r.explain(ctx, req, missing)
	b := r.builder(req).Phase(cmp.Or(req.Status.Phase, v1alpha1.PhasePending), message)
	wait := missing.retry
	if missing.stalled {
		// What the change is can't be told, so none is pending: one that was, and comes back, was not tried.
		if req.Status.Pending != nil {
			r.unplan(ctx, req)
		}
		b.Settled().Stalled(missing.reason, message)
	} else {
		b.Progressing(missing.reason, message)
		if wait == 0 {
			wait = backOff(b.Failed().Status().Failures, false)
		}
	}
	r.announce(req, missing.reason, message)
	if sessionErr == nil && !suspended(req) {
		result, err := r.repair(ctx, req, b)
		if err == nil {
			result.RequeueAfter = sooner(result.RequeueAfter, wait)
			return result, nil
		}
		sessionErr = err
	}
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	if sessionErr != nil {
		b.Phase(b.Status().Phase, message+"; and what is released can't be looked at: "+r.explain(ctx, req, sessionErr))
		wait = sooner(wait, lastRetry)
	}
	return reconcile.Result{RequeueAfter: sooner(r.period, wait)}, r.write(ctx, req, b)
}

// announce tells people, once, that the change can't be told.
func (r *Reconciler) announce(req *Request, reason, message string) {
	r.initializing(req)
	known := meta.FindStatusCondition(req.Status.Conditions, v1alpha1.ConditionReady)
	if reason != v1alpha1.ReasonRetrying && (known == nil || known.Reason != reason) {
		r.event(req, eventWarning, reason, "%s", message)
	}
}

// reopen opens a session for what is released, whatever is to be.
func (r *Reconciler) reopen(ctx context.Context, req *Request) error {
	if err := r.change.open(ctx, req); err != nil {
		return err
	}
	var err error
	req.Standing, err = req.Session.Examine()
	return err
}
