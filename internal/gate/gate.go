// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gate decides whether a pending change may be released.
package gate

import (
	"context"
	"fmt"

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

// Reasons of decisions that no gate type makes of its own.
const (
	ReasonUnknownGateType  = "UnknownGateType"
	ReasonInvalidDecision  = "InvalidDecision"
	ReasonEvaluationFailed = "EvaluationFailed"
)

// Decision is how one gate judged a change.
type Decision struct {
	// Gate that decided.
	Gate v1alpha1.Gate
	// Verdict of the gate.
	Verdict Verdict
	// Reason in CamelCase.
	Reason string
	// Message for people: what is missing and how to provide it.
	Message string
}

// Mandatory tells whether the gate holds the change when it does not allow it.
func (d Decision) Mandatory() bool { return d.Gate.Mandatory == nil || *d.Gate.Mandatory }

// Change is what gates are asked about.
type Change struct {
	// Namespace and Name of the custom resource.
	Namespace, Name string
	// TargetNamespace of the release.
	TargetNamespace string
	// Digest of the change.
	Digest string
}

// Evaluator judges gates of one type. A denial is a decision; an error means
// that the gate could not be judged, and the gate is asked again.
type Evaluator interface {
	Evaluate(ctx context.Context, change Change, gate v1alpha1.Gate) (Decision, error)
}

// Set judges gates by the evaluators of their types.
type Set struct {
	evaluators map[v1alpha1.GateType]Evaluator
}

// NewSet returns a set of evaluators. A gate whose type is not among them holds.
func NewSet(evaluators map[v1alpha1.GateType]Evaluator) *Set {
	return &Set{evaluators: evaluators}
}

// Evaluate asks every gate, so that all that is missing shows at once.
func (s *Set) Evaluate(ctx context.Context, change Change, gates []v1alpha1.Gate) []Decision {
	decisions := make([]Decision, 0, len(gates))
	for _, g := range gates {
		decisions = append(decisions, s.evaluate(ctx, change, g))
	}
	return decisions
}

func (s *Set) evaluate(ctx context.Context, change Change, g v1alpha1.Gate) Decision {
	evaluator, ok := s.evaluators[g.Type]
	if !ok {
		return Decision{
			Gate: g, Verdict: Hold, Reason: ReasonUnknownGateType,
			Message: fmt.Sprintf("this operator knows no gate type %q; correct spec.gates, or make the gate optional with mandatory: false", g.Type),
		}
	}
	d, err := evaluator.Evaluate(ctx, change, g)
	d.Gate = g
	if err != nil {
		return Decision{Gate: g, Verdict: Unknown, Reason: ReasonEvaluationFailed, Message: err.Error()}
	}
	if d.Verdict != Allow && d.Verdict != Hold && d.Verdict != Unknown {
		return Decision{Gate: g, Verdict: Unknown, Reason: ReasonInvalidDecision, Message: "the gate gave no verdict; this is a fault of the operator"}
	}
	return d
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
