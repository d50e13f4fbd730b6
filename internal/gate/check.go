// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"fmt"
	"slices"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// InvalidError says that a gate can never be judged as it is written.
type InvalidError struct {
	// Gate is the name of the gate.
	Gate string
	// Field of the gate that is wrong, such as expression.
	Field string
	// Line and Column of the fault in an expression, from 1. 0 where there is none.
	Line, Column int
	// Problem says what is wrong.
	Problem string
	// Hint says what to do. May be empty.
	Hint string
}

// Error is all of it in one line.
func (e *InvalidError) Error() string {
	s := fmt.Sprintf("gate %s: %s", e.Gate, e.Field)
	if e.Line > 0 {
		s += fmt.Sprintf(", line %d, column %d", e.Line, e.Column)
	}
	s += ": " + e.Problem
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

func (e *InvalidError) reason() string {
	if e.Field == fieldExpression {
		return ReasonExpressionError
	}
	return ReasonInvalidGate
}

// Fields of a gate, as errors name them.
const (
	fieldName       = "name"
	fieldRef        = "ref"
	fieldAccept     = "accept"
	fieldExpression = "expression"
	fieldSchedule   = "schedule"
	fieldDuration   = "duration"
	fieldTimezone   = "timezone"
)

// conditionTypes can't be names of gates, whose conditions they would overwrite.
var conditionTypes = []string{
	v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled,
	v1alpha1.ConditionAllGatesPassed, v1alpha1.ConditionDrifted, v1alpha1.ConditionRolledBack,
	v1alpha1.ConditionRolloutPaused, v1alpha1.ConditionChartStale, v1alpha1.ConditionInitialized, v1alpha1.ConditionDeployed,
	v1alpha1.ConditionReleaseFailed, v1alpha1.ConditionIrreconcilable, v1alpha1.ConditionPaused,
}

// checkNames finds names that are missing or taken. CRDs of Chartgate's own refuse them
// already; others can't.
func checkNames(gates []v1alpha1.Gate) []error {
	var problems []error
	seen := map[string]bool{}
	for i, g := range gates {
		switch {
		case g.Name == "":
			problems = append(problems, &InvalidError{Gate: fmt.Sprintf("number %d", i+1), Field: fieldName, Problem: "is missing", Hint: "give every gate a name"})
		case slices.Contains(conditionTypes, g.Name):
			problems = append(problems, &InvalidError{Gate: g.Name, Field: fieldName, Problem: "is taken by one of Chartgate's own condition types", Hint: "choose another name"})
		case seen[g.Name]:
			problems = append(problems, &InvalidError{Gate: g.Name, Field: fieldName, Problem: "is that of another gate as well", Hint: "choose another name"})
		}
		seen[g.Name] = true
	}
	return problems
}

// Merge puts the gates that watches.yaml gives a kind before those of a
// resource. A gate of the resource that has the name of one of the kind's is
// left out, whatever it says, so that a resource can add gates and never weaken
// one; the names of those that differ from the kind's are returned as ignored.
func Merge(kind, own []v1alpha1.Gate) (gates []v1alpha1.Gate, ignored []string) {
	gates = slices.Clone(kind)
	for _, g := range own {
		i := slices.IndexFunc(kind, func(k v1alpha1.Gate) bool { return k.Name == g.Name })
		if i < 0 {
			gates = append(gates, g)
			continue
		}
		if !same(kind[i], g) {
			ignored = append(ignored, g.Name)
		}
	}
	return gates, ignored
}
