// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/inputs"
	"github.com/chartgate/chartgate/internal/status"
)

// Gating is what the gates said in one reconcile.
type Gating struct {
	// Decisions of all gates: those of the kind first, then the resource's own.
	Decisions []gate.Decision
	// Ignored names gates of the resource that the kind has as well, with other settings.
	Ignored []string
	// Fault says which mandatory gates can't be judged as they are written; nil if all can.
	Fault *stallError
	// Gated is true when the change is one that gates may hold: it is pending, and not just repair.
	Gated bool
	// Plan is the name of the ConfigMap that shows the change; empty where nobody has to approve.
	Plan string
}

// gateHook asks the gates. It does so, too, when nothing is pending: that costs
// no request, and the status shows what the next change would wait for.
type gateHook struct {
	set *gate.Set
	// gates of the kind.
	gates          []v1alpha1.Gate
	inputs         *inputs.Inputs
	plans          *plans
	crossNamespace bool
	clock          clock.PassiveClock
	// interval is what a resource itself says of the checkInterval of all its gates, in seconds; 0 for
	// nothing. Nil for kinds whose resources say nothing.
	interval func(*unstructured.Unstructured) int32
}

func (h gateHook) PreReconcile(ctx context.Context, req *Request) error {
	owner := req.owner()
	gates, ignored := gate.Merge(h.gates, req.Spec.Gates)
	if h.interval != nil {
		gates = withInterval(gates, h.interval(req.Object))
	}
	g := &Gating{Ignored: ignored}
	req.Gating = g
	if len(gates) == 0 {
		h.inputs.Refer(owner, req.Identity, nil)
		return nil
	}
	// What is applied already is put back ungated, as after a helm uninstall by hand.
	g.Gated = req.Pending && req.Status.AppliedDigest != req.Change.Digest()
	change := gate.Change{
		Namespace: req.Object.GetNamespace(), Name: req.Object.GetName(),
		TargetNamespace: req.Change.Namespace, Digest: req.Change.Digest(),
		GroupVersionKind: req.Object.GroupVersionKind(), Object: req.Object,
		CrossNamespaceRefs: h.crossNamespace, Reader: h.inputs.For(req.Identity, owner), Clock: h.clock,
	}
	h.inputs.Refer(owner, req.Identity, h.set.References(change, gates))
	if slices.ContainsFunc(gates, byApproval) {
		g.Plan = h.plans.name(ctx, req.Object)
	}
	if g.Gated {
		change.Plan = g.Plan
	}
	g.Decisions = h.set.Evaluate(ctx, change, gates)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	g.Fault = h.fault(gates)
	req.Held = g.Gated && !gate.Open(g.Decisions)
	return nil
}

// withInterval returns the gates with this checkInterval; as they are for 0.
func withInterval(gates []v1alpha1.Gate, seconds int32) []v1alpha1.Gate {
	if seconds == 0 {
		return gates
	}
	gates = slices.Clone(gates)
	for i := range gates {
		gates[i].CheckInterval = &seconds
	}
	return gates
}

// fault says which of the mandatory gates are wrong as they are written.
func (h gateHook) fault(gates []v1alpha1.Gate) *stallError {
	err := h.set.Check(slices.DeleteFunc(slices.Clone(gates), func(g v1alpha1.Gate) bool { return !mandatory(g) }))
	if err == nil {
		return nil
	}
	reason := gate.ReasonInvalidGate
	if invalid := (*gate.InvalidError)(nil); errors.As(err, &invalid) && invalid.Field == expressionField {
		reason = gate.ReasonExpressionError
	}
	return &stallError{reason: reason, err: errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))}
}

// expressionField is how an InvalidError names the expression of a gate.
const expressionField = "expression"

// gateReasons are those of Stalled that pass as soon as a gate is mended, whatever becomes of the change.
var gateReasons = []string{gate.ReasonInvalidGate, gate.ReasonExpressionError}

func byApproval(g v1alpha1.Gate) bool {
	return g.Type == v1alpha1.GateManualApproval && mandatory(g)
}

func mandatory(g v1alpha1.Gate) bool { return gate.Decision{Gate: g}.Mandatory() }

// awaitsApproval tells whether a person has to approve the change yet.
func (g *Gating) awaitsApproval() bool {
	return slices.ContainsFunc(g.Decisions, func(d gate.Decision) bool { return d.Verdict != gate.Allow && byApproval(d.Gate) })
}

// holding names the gates that hold the change.
func (g *Gating) holding() []string {
	var names []string
	for _, d := range g.Decisions {
		if d.Mandatory() && d.Verdict != gate.Allow {
			names = append(names, d.Gate.Name)
		}
	}
	return names
}

// waiting is what the gates that hold the change wait for, in one line.
func (g *Gating) waiting() string {
	var all []string
	for _, d := range g.Decisions {
		if d.Mandatory() && d.Verdict != gate.Allow {
			all = append(all, d.Gate.Name+": "+d.Message)
		}
	}
	return "waiting for gates: " + strings.Join(all, "; ")
}

// unsettled tells whether a gate was asked before its watch was established: it is asked again soon.
func (g *Gating) unsettled() bool {
	return slices.ContainsFunc(g.Decisions, func(d gate.Decision) bool { return d.Reason == gate.ReasonNotSynced })
}

// report puts what the gates said into the status.
func (g *Gating) report(req *Request, b *status.Builder) {
	if g == nil || (!g.Gated && g.unsettled()) {
		return // a restarted operator does not take back what its last life saw
	}
	var all []v1alpha1.GateStatus
	for _, d := range g.Decisions {
		all = append(all, v1alpha1.GateStatus{
			Name: d.Gate.Name, Type: d.Gate.Type, Mandatory: d.Mandatory(),
			Verdict: d.Verdict.Status(), Reason: d.Reason, Message: strings.Join(strings.Fields(d.Message), " "),
		})
	}
	note := ""
	if len(g.Ignored) > 0 {
		note = fmt.Sprintf("the operator's watches.yaml sets %s for the kind, so spec.gates can't", strings.Join(g.Ignored, ", "))
	}
	b.Gates(all, note)
	if g.Gated {
		b.Approved(req.Change.Digest(), gate.Approvals(g.Decisions))
	}
}

// recheck is when the gates have to be asked again though no watch reports a change; 0 for never.
func (g *Gating) recheck() time.Duration {
	if g == nil {
		return 0
	}
	return gate.RecheckAfter(g.Decisions)
}

// sooner is the shorter of two times after which to look again; 0 stands for never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// tell sends the events of what the gates have done between two statuses.
func (r *Reconciler) tell(req *Request, before, after v1alpha1.CommonStatus) {
	if req.Gating == nil {
		return
	}
	for _, g := range after.Gates {
		i := slices.IndexFunc(before.Gates, func(l v1alpha1.GateStatus) bool { return l.Name == g.Name })
		switch {
		case i >= 0 && before.Gates[i].Verdict == g.Verdict, i < 0 && !req.Gating.Gated:
		case g.Verdict == v1alpha1.VerdictPassed:
			r.event(req, eventNormal, v1alpha1.EventGatePassed, "gate %s: %s", g.Name, g.Message)
		case g.Verdict == v1alpha1.VerdictUnknown:
			r.event(req, eventWarning, v1alpha1.EventGateWaiting, "gate %s can't be judged: %s", g.Name, g.Message)
		default:
			r.event(req, eventNormal, v1alpha1.EventGateWaiting, "gate %s: %s", g.Name, g.Message)
		}
	}
	for _, a := range after.Approvals {
		if !slices.Contains(before.Approvals, a) {
			r.event(req, eventNormal, v1alpha1.EventChangeApproved, "change %s was approved by %s at gate %s (%s)", shortDigest(a.Digest), a.Approver, a.Gate, a.Source)
		}
	}
	if req.Held && !status.Held(before, req.Change.Digest()) {
		r.event(req, eventNormal, v1alpha1.EventChangeHeld, "change %s is held by %s", shortDigest(req.Change.Digest()), strings.Join(req.Gating.holding(), ", "))
	}
}

// shortDigest is enough of a digest for people to tell changes apart.
func shortDigest(digest string) string { return digest[:min(len(digest), 12)] }
