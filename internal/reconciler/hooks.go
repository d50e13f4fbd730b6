// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/chartsource"
	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/identity"
	"github.com/chartgate/chartgate/internal/release"
	"github.com/chartgate/chartgate/internal/translate"
)

// Request is one resource on its way through the hooks. Each hook adds what
// it is there for.
type Request struct {
	// Object is the snapshot: everything in this reconcile speaks of it.
	Object *unstructured.Unstructured
	// Spec holds Chartgate's own settings; empty where the kind's CRD declares none.
	Spec v1alpha1.CommonSpec
	// Status as it was last written.
	Status v1alpha1.CommonStatus
	// Inherited is true when another Helm operator served the resource until now.
	Inherited bool
	// Identity that serves the resource: it reads and writes the release and its objects, and reads what
	// gates and values refer to. The resource itself is the operator's: its status, finalizer, events and plan.
	Identity identity.Identity
	// Nobody is true when it can't be told who serves the resource. Identity means nothing then.
	Nobody bool

	// Values for the chart. Set by the translate hook, and added to by the values hook.
	Values map[string]any
	// Secret names the values that are from Secrets, each by its keys. Set by the values hook.
	Secret [][]string
	// Scale is the number of replicas that is no part of the change; nil for kinds without. Set by the translate hook.
	Scale *release.Scale
	// Data is what the resource keeps beyond its release; nil for kinds without. Set by the translate hook.
	Data *release.Data
	// Chart to release. Set by the chart source hook.
	Chart *chartsource.Chart
	// Session and Change to bring about, and where the stored release stands. Set by the change hook.
	Session  *release.Session
	Change   release.Change
	Standing release.Standing
	// Pending is true when the change is not what is released. Set by the change hook.
	Pending bool
	// Gating is what the gates said, and Held whether they hold the change. Set by the gate hook.
	Gating *Gating
	Held   bool
}

// owner is the resource as watches name it.
func (r *Request) owner() dependents.Owner {
	return dependents.OwnerOf(r.Object.GroupVersionKind().GroupKind(), r.Object)
}

// recheck is when the resource has to be looked at again though no watch reports a change; 0 for never.
func (r *Request) recheck() time.Duration {
	if r.Chart == nil {
		return r.Gating.recheck()
	}
	return sooner(r.Gating.recheck(), r.Chart.Recheck)
}

// PreReconcile is a hook that runs before anything is released. A stallError
// makes the resource Stalled, a sourceError says itself what comes of it; any
// other error is retried.
type PreReconcile interface {
	PreReconcile(ctx context.Context, req *Request) error
}

// stallError says that nothing can be done until the user changes something.
type stallError struct {
	reason string
	err    error
}

func (e *stallError) Error() string { return e.err.Error() }
func (e *stallError) Unwrap() error { return e.err }

// translateHook turns the spec into values.
type translateHook struct {
	translator translate.Translator
	overrides  map[string]any
}

func (h translateHook) PreReconcile(_ context.Context, req *Request) error {
	if keeper, ok := h.translator.(translate.Keeper); ok {
		data := release.Data(keeper.Data(req.Object))
		req.Data = &data
	}
	values, err := h.translator.Translate(req.Object)
	if err != nil {
		return &stallError{reason: v1alpha1.ReasonInvalidValues, err: err}
	}
	req.Values = translate.Override(values, h.overrides)
	if scaler, ok := h.translator.(translate.Scaler); ok {
		scaled, value := scaler.Scaled(req.Object)
		if replicas, ok := req.Values[value].(int64); ok {
			req.Scale = &release.Scale{GroupKind: scaled.GroupKind, Name: scaled.Name, Replicas: replicas, Value: value}
		}
	}
	return nil
}

// changeHook makes the change and finds out whether it is released already.
type changeHook struct {
	engine  *release.Engine
	placer  chartsource.Placer // nil for kinds whose releases are where their resources are
	timeout time.Duration
}

// defaultMaxHistory is the number of revisions kept, as with helm.
const defaultMaxHistory = 10

func (h changeHook) PreReconcile(ctx context.Context, req *Request) error {
	if err := h.open(ctx, req); err != nil {
		return err
	}
	standing, err := req.Session.Examine()
	if err != nil {
		return err
	}
	req.Standing, req.Pending = standing, !standing.Applied
	return nil
}

// open makes the change, and a session for it.
func (h changeHook) open(ctx context.Context, req *Request) error {
	change, err := h.change(ctx, req)
	if err != nil {
		return err
	}
	change.Values, change.Secret, change.Scale = req.Values, req.Secret, req.Scale
	if req.Chart != nil {
		change.Chart, change.ChartDigest = req.Chart.Chart, req.Chart.Digest
		if change, err = change.WithDigest(); err != nil {
			return &stallError{reason: v1alpha1.ReasonInvalidValues, err: err}
		}
	}
	session, err := h.engine.Session(ctx, change)
	if err != nil {
		return err
	}
	req.Change, req.Session = change, session
	return nil
}

// change is the part of a change that does not need a chart.
func (h changeHook) change(ctx context.Context, req *Request) (release.Change, error) {
	// Who may write the status may not choose where the operator writes, so the namespace is not taken from there.
	c := release.Change{
		Owner: req.Object, Identity: req.Identity, Namespace: req.Object.GetNamespace(),
		Settings:     h.settings(req),
		Written:      req.Status.History,
		Data:         req.Data,
		KeepRollback: keepsRollback(req),
	}
	if err := h.place(req, &c); err != nil {
		return c, &stallError{reason: v1alpha1.ReasonInvalidValues, err: err}
	}
	owner := req.owner()
	if c.Name = req.Status.ReleaseName; req.Status.Revision > 0 && slices.Contains(release.Names(owner, c.Namespace), c.Name) {
		return c, nil
	}
	// Nothing was released yet, so that the name may be taken by now; or the status was lost.
	name, err := h.engine.ReleaseName(ctx, owner, req.Identity, c.Namespace)
	if err != nil {
		return c, err
	}
	if name == "" {
		return c, &stallError{reason: v1alpha1.ReasonOwnershipConflict, err: errors.New("every name this release could have is taken by a release of another resource")}
	}
	c.Name = name
	return c, nil
}

// place puts the release where its resource says, if its kind's may.
func (h changeHook) place(req *Request, c *release.Change) error {
	if h.placer == nil {
		return nil
	}
	where, err := h.placer.Place(req.Object)
	if err != nil || where.Namespace == "" || where.Namespace == c.Namespace {
		return err
	}
	if req.Identity.IsOperator() {
		return errors.New("only what a ServiceAccount serves may go into another namespace: set spec.release.serviceAccountName")
	}
	c.Namespace, c.Settings.CreateNamespace = where.Namespace, where.Create
	return nil
}

// settings of the release.
func (h changeHook) settings(req *Request) release.Settings {
	out := release.Settings{Timeout: h.timeout, MaxHistory: defaultMaxHistory, Adopt: adopts(req)}
	if own := req.Spec.Release; own != nil {
		out.DisableHooks, out.Drift = own.DisableHooks, own.Drift
		if own.Timeout != nil && own.Timeout.Duration > 0 {
			out.Timeout = own.Timeout.Duration
		}
		if own.MaxHistory != nil {
			out.MaxHistory = int(*own.MaxHistory)
		}
	}
	return out
}

// adopts tells whether a release that has no owner is to be taken over: when
// the resource is annotated so, or when it was served by another Helm operator
// until now, which shows in its finalizer and in a status that is not ours.
func adopts(req *Request) bool {
	if on, err := strconv.ParseBool(req.Object.GetAnnotations()[v1alpha1.AnnotationAdopt]); err == nil && on {
		return true
	}
	return req.Inherited
}

// keepsRollback tells whether a helm rollback by a user stands: until the spec
// changes, or the resume annotation does.
func keepsRollback(req *Request) bool {
	if req.Object.GetAnnotations()[v1alpha1.AnnotationResume] != req.Status.LastHandledResume {
		return false
	}
	generation := req.Object.GetGeneration()
	if c := meta.FindStatusCondition(req.Status.Conditions, v1alpha1.ConditionRolledBack); c != nil && c.Status == metav1.ConditionTrue {
		return c.ObservedGeneration == generation
	}
	return req.Status.ObservedGeneration == 0 || req.Status.ObservedGeneration == generation
}
