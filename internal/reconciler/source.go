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
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/inputs"
	"github.com/chartgate/chartgate/internal/status"
	"github.com/chartgate/chartgate/internal/valuesfrom"
)

// sourceError says why it can't be told what is to be released: there is no
// chart, or there are no values. What is released is kept up meanwhile.
type sourceError struct {
	reason string
	// stalled is true where nothing gets better before somebody does something.
	stalled bool
	// retry is when to look again though nothing is changed. 0: by back-off, or, when stalled, never.
	retry time.Duration
	err   error
}

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

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

// chartHook finds the chart.
type chartHook struct {
	source chartsource.Source
	inputs *inputs.Inputs
}

func (h chartHook) PreReconcile(ctx context.Context, req *Request) error {
	c, err := h.source.Resolve(ctx, req.Object, h.inputs.Contents(req.Identity, req.owner()))
	if err == nil {
		req.Chart = c
		return nil
	}
	if missing, ok := errors.AsType[*chartsource.Error](err); ok {
		return &sourceError{reason: missing.Reason, stalled: missing.Terminal, retry: missing.RetryAfter, err: err}
	}
	return unread(err)
}

// unread is the sourceError for something that could not be read.
func unread(err error) error {
	reason := v1alpha1.ReasonRetrying
	if _, denied := errors.AsType[*gate.ForbiddenError](err); denied {
		reason = v1alpha1.ReasonForbidden
	}
	return &sourceError{reason: reason, err: err}
}

// valuesHook adds the values that the resource takes from Secrets and ConfigMaps.
type valuesHook struct{ inputs *inputs.Inputs }

func (h valuesHook) PreReconcile(ctx context.Context, req *Request) error {
	if req.Spec.Release == nil || len(req.Spec.Release.ValuesFrom) == 0 {
		return nil
	}
	from, err := valuesfrom.Read(ctx, req.Spec.Release.ValuesFrom, req.Object.GetNamespace(), h.inputs.Contents(req.Identity, req.owner()))
	if missing, ok := errors.AsType[*valuesfrom.Error](err); ok {
		return &sourceError{reason: missing.Reason, stalled: true, retry: lastRetry, err: err}
	}
	if err != nil {
		return unread(err)
	}
	req.Values, req.Secret = from.Under(req.Values)
	return nil
}

// keepUp reports that it can't be told what is to be released, and puts back
// what is released where somebody else changed it.
func (r *Reconciler) keepUp(ctx context.Context, req *Request, missing *sourceError) (reconcile.Result, error) {
	req.Chart = nil
	opened, sessionErr := r.reopen(ctx, req)
	message := r.explain(ctx, req, missing)
	b := r.builder(req).Phase(cmp.Or(req.Status.Phase, v1alpha1.PhasePending), message).Drop(v1alpha1.ConditionChartStale)
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
	if opened && !suspended(req) {
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
	if req.Change.Name != "" {
		r.initializing(req)
	}
	known := meta.FindStatusCondition(req.Status.Conditions, v1alpha1.ConditionReady)
	if reason != v1alpha1.ReasonRetrying && (known == nil || known.Reason != reason) {
		r.event(req, eventWarning, reason, "%s", message)
	}
}

// reopen opens a session for what is released, whatever is to be. A release that
// is yet to be adopted is left alone: it is compared with the change first.
func (r *Reconciler) reopen(ctx context.Context, req *Request) (opened bool, err error) {
	if adopts(req) && len(req.Status.History) == 0 {
		return false, nil
	}
	if err := r.change.open(ctx, req); err != nil {
		return false, err
	}
	req.Pending = true // as far as can be told
	req.Standing, err = req.Session.Examine()
	return err == nil, err
}
