// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"errors"
	"slices"
)

// Reasons of decisions. docs/conditions.md explains each.
const (
	ReasonConfigMapFound   = "ConfigMapFound"
	ReasonConfigMapMissing = "ConfigMapMissing"

	ReasonSecretFound   = "SecretFound"
	ReasonSecretMissing = "SecretMissing"

	ReasonDependencyReady    = "DependencyReady"
	ReasonDependencyNotReady = "DependencyNotReady"
	ReasonDependencyMissing  = "DependencyMissing"
	ReasonDependencyCycle    = "DependencyCycle"

	ReasonApprovalPending    = "ApprovalPending"
	ReasonApproved           = "Approved"
	ReasonNotApproved        = "NotApproved"
	ReasonRejected           = "Rejected"
	ReasonApproverUnverified = "ApproverUnverified"

	ReasonExpressionTrue  = "ExpressionTrue"
	ReasonExpressionFalse = "ExpressionFalse"
	ReasonExpressionError = "ExpressionError"

	ReasonWindowOpen   = "WindowOpen"
	ReasonWindowClosed = "WindowClosed"

	// ReasonUnknownGateType and the following are of no gate type in particular.
	ReasonUnknownGateType     = "UnknownGateType"
	ReasonInvalidGate         = "InvalidGate"
	ReasonInvalidDecision     = "InvalidDecision"
	ReasonEvaluationFailed    = "EvaluationFailed"
	ReasonReferenceNotAllowed = "ReferenceNotAllowed"
	ReasonForbidden           = "Forbidden"
	ReasonKindNotServed       = "KindNotServed"
	ReasonNotSynced           = "NotSynced"
)

// Reasons returns every reason that a decision can have, sorted.
func Reasons() []string {
	all := []string{
		ReasonConfigMapFound, ReasonConfigMapMissing, ReasonSecretFound, ReasonSecretMissing,
		ReasonDependencyReady, ReasonDependencyNotReady, ReasonDependencyMissing, ReasonDependencyCycle,
		ReasonApprovalPending, ReasonApproved, ReasonNotApproved, ReasonRejected, ReasonApproverUnverified,
		ReasonExpressionTrue, ReasonExpressionFalse, ReasonExpressionError,
		ReasonWindowOpen, ReasonWindowClosed,
		ReasonUnknownGateType, ReasonInvalidGate, ReasonInvalidDecision, ReasonEvaluationFailed,
		ReasonReferenceNotAllowed, ReasonForbidden, ReasonKindNotServed, ReasonNotSynced,
	}
	slices.Sort(all)
	return all
}

// undecided is the decision of a gate whose objects can't be read.
func undecided(err error) Decision {
	d := Decision{Verdict: Unknown, Reason: ReasonEvaluationFailed, Message: err.Error()}
	var forbidden *ForbiddenError
	var noKind *NoKindError
	switch {
	case errors.As(err, &forbidden):
		d.Reason = ReasonForbidden
	case errors.As(err, &noKind):
		d.Reason = ReasonKindNotServed
	case errors.Is(err, ErrNotSynced):
		d.Reason = ReasonNotSynced
	}
	return d
}
