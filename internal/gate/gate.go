// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gate decides whether a pending change may be released.
//
// Evaluators are pure: they read objects only through a Reader, tell the time
// only by the change's clock, and keep nothing but compiled expressions. A
// denial is a decision; what can't be decided is Unknown and never opens a gate.
package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// Verdict is what an evaluator found. The zero value is invalid.
type Verdict int

// The verdicts.
const (
	// Allow lets the change through.
	Allow Verdict = iota + 1
	// Hold keeps it waiting.
	Hold
	// Unknown means that the gate could not be judged. It holds as well.
	Unknown
)

// Status is the verdict as status.gates shows it.
func (v Verdict) Status() v1alpha1.Verdict {
	switch v {
	case Allow:
		return v1alpha1.VerdictPassed
	case Hold:
		return v1alpha1.VerdictWaiting
	default:
		return v1alpha1.VerdictUnknown
	}
}

// Decision is how one gate judged a change.
type Decision struct {
	// Gate that decided.
	Gate v1alpha1.Gate
	// Verdict of the gate.
	Verdict Verdict
	// Reason in CamelCase: one of Reasons.
	Reason string
	// Message for people: what is missing and how to provide it.
	Message string
	// RecheckAfter is how long the decision is good for when no watch reports a
	// change. 0: until a watch does.
	RecheckAfter time.Duration
	// Approval that opened the gate, for gates of type ManualApproval; else nil.
	// Its time is that of this evaluation.
	Approval *v1alpha1.ApprovalRecord
}

// Mandatory tells whether the gate holds the change when it does not allow it.
func (d Decision) Mandatory() bool { return mandatory(d.Gate) }

func mandatory(g v1alpha1.Gate) bool { return g.Mandatory == nil || *g.Mandatory }

// Evaluator judges gates of one type. A denial is a decision; an error means
// that the gate could not be judged, and the gate is asked again. Evaluators
// are safe for concurrent use.
type Evaluator interface {
	Evaluate(ctx context.Context, change Change, gate v1alpha1.Gate) (Decision, error)
}

// Checker is an Evaluator that can tell, without reading anything, that a gate
// can never be judged as it is written. The error is an *InvalidError.
type Checker interface {
	Check(gate v1alpha1.Gate) error
}

// Referrer is an Evaluator whose gates look at objects.
type Referrer interface {
	// References are the objects whose changes the gate has to hear of. It reads nothing.
	References(change Change, gate v1alpha1.Gate) []Ref
}

// Set judges gates by the evaluators of their types. It is safe for concurrent use.
type Set struct {
	evaluators map[v1alpha1.GateType]Evaluator
}

// NewSet returns a set of evaluators. A gate whose type is not among them holds.
func NewSet(evaluators map[v1alpha1.GateType]Evaluator) *Set {
	return &Set{evaluators: evaluators}
}

// Evaluate asks every gate, so that all that is missing shows at once. All
// gates see the same time.
func (s *Set) Evaluate(ctx context.Context, change Change, gates []v1alpha1.Gate) []Decision {
	change.freeze()
	decisions := make([]Decision, 0, len(gates))
	for _, g := range gates {
		d := s.evaluate(ctx, change, g)
		d.Gate = g
		if d.Verdict != Allow && (g.Type != v1alpha1.GateTimeWindow || d.RecheckAfter == 0) {
			d.RecheckAfter = soonest(d.RecheckAfter, checkInterval(g))
		}
		decisions = append(decisions, d)
	}
	return decisions
}

func (s *Set) evaluate(ctx context.Context, change Change, g v1alpha1.Gate) Decision {
	evaluator, ok := s.evaluators[g.Type]
	if !ok {
		return Decision{
			Verdict: Hold, Reason: ReasonUnknownGateType,
			Message: fmt.Sprintf("this operator knows no gate type %q; correct spec.gates, or make the gate optional with mandatory: false", g.Type),
		}
	}
	d, err := evaluator.Evaluate(ctx, change, g)
	if invalid := (*InvalidError)(nil); errors.As(err, &invalid) {
		return Decision{Verdict: Hold, Reason: invalid.reason(), Message: invalid.Error()}
	}
	if err != nil {
		return undecided(err)
	}
	if d.Verdict != Allow && d.Verdict != Hold && d.Verdict != Unknown {
		return Decision{Verdict: Unknown, Reason: ReasonInvalidDecision, Message: "the gate gave no verdict; this is a fault of the operator"}
	}
	return d
}

// Check tells which of the gates can never be judged as they are written: names
// that are taken, expressions that don't compile, schedules that are none. The
// error joins one *InvalidError for each. A gate of an unknown type is no error:
// it holds, and says so.
func (s *Set) Check(gates []v1alpha1.Gate) error {
	problems := checkNames(gates)
	for _, g := range gates {
		if checker, ok := s.evaluators[g.Type].(Checker); ok {
			if err := checker.Check(g); err != nil {
				problems = append(problems, err)
			}
		}
	}
	return errors.Join(problems...)
}

// References are the objects that the gates look at, each once: the change has
// to be looked at again when one of them changes.
func (s *Set) References(change Change, gates []v1alpha1.Gate) []Ref {
	var all []Ref
	seen := map[Ref]bool{}
	for _, g := range gates {
		referrer, ok := s.evaluators[g.Type].(Referrer)
		if !ok {
			continue
		}
		for _, ref := range referrer.References(change, g) {
			if !seen[ref] {
				seen[ref] = true
				all = append(all, ref)
			}
		}
	}
	return all
}

// Open tells whether the decisions let the change through.
func Open(decisions []Decision) bool {
	for _, d := range decisions {
		if d.Mandatory() && d.Verdict != Allow {
			return false
		}
	}
	return true
}

// RecheckAfter is when the first of the decisions has to be made again, though
// no watch reports a change. 0: never.
func RecheckAfter(decisions []Decision) time.Duration {
	var first time.Duration
	for _, d := range decisions {
		first = soonest(first, d.RecheckAfter)
	}
	return first
}

// Approvals are the records of the approvals among the decisions.
func Approvals(decisions []Decision) []v1alpha1.ApprovalRecord {
	var records []v1alpha1.ApprovalRecord
	for _, d := range decisions {
		if d.Approval != nil {
			records = append(records, *d.Approval)
		}
	}
	return records
}

// soonest is the shorter time; 0 stands for never.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// defaultCheckInterval is how often a gate is looked at again when no watch reports a change.
const defaultCheckInterval = 30 * time.Second

func checkInterval(g v1alpha1.Gate) time.Duration {
	if g.CheckInterval == nil || *g.CheckInterval < 1 {
		return defaultCheckInterval
	}
	return time.Duration(*g.CheckInterval) * time.Second
}

// Options of the evaluators of this package.
type Options struct {
	// Protection tells whether the API server vouches for who made a ReleaseApproval.
	// Default: it doesn't, so ReleaseApprovals don't count.
	Protection ApprovalProtection
	// KindGates returns the gates that watches.yaml gives a kind, and whether the kind
	// is one of this operator's. Default: none is.
	KindGates KindGates
}

// Evaluators returns those of all gate types of the API.
func Evaluators(o Options) map[v1alpha1.GateType]Evaluator {
	return map[v1alpha1.GateType]Evaluator{
		v1alpha1.GateConfigMapExists: configMapExists{},
		v1alpha1.GateSecretExists:    secretExists{},
		v1alpha1.GateDependencyReady: dependencyReady{kindGates: o.KindGates},
		v1alpha1.GateManualApproval:  manualApproval{protection: o.Protection},
		v1alpha1.GateExpression:      newExpression(),
		v1alpha1.GateTimeWindow:      timeWindow{},
	}
}
