// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// conditionTypes can't be names of gates, whose conditions they would overwrite.
var conditionTypes = []string{
	v1alpha1.ConditionReady,
	v1alpha1.ConditionReconciling,
	v1alpha1.ConditionStalled,
	v1alpha1.ConditionAllGatesPassed,
	v1alpha1.ConditionDrifted,
	v1alpha1.ConditionRolledBack,
	v1alpha1.ConditionRolloutPaused,
	v1alpha1.ConditionChartStale,
	v1alpha1.ConditionInitialized,
	v1alpha1.ConditionDeployed,
	v1alpha1.ConditionReleaseFailed,
	v1alpha1.ConditionIrreconcilable,
	v1alpha1.ConditionPaused,
}

// gateTypes are those of the API.
var gateTypes = []v1alpha1.GateType{
	v1alpha1.GateConfigMapExists,
	v1alpha1.GateSecretExists,
	v1alpha1.GateDependencyReady,
	v1alpha1.GateManualApproval,
	v1alpha1.GateExpression,
	v1alpha1.GateTimeWindow,
}

// Limits of a gate, as in the CRDs.
const (
	maxGateNameLength   = 63
	maxCheckInterval    = 86400
	maxExpressionLength = 4096
)

var gateNamePattern = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)

// gates checks the gates of an entry and fills in the default of mandatory.
func (v *validator) gates(gates []v1alpha1.Gate) []v1alpha1.Gate {
	names := map[string]int{}
	for i := range gates {
		g := &gates[i]
		if v.wrong[g] {
			continue
		}
		line := v.line(g, 0)
		if g.Mandatory == nil {
			g.Mandatory = new(bool)
			*g.Mandatory = true
		}
		if v.gateName(g, line) {
			nameLine := v.line(&g.Name, line)
			if first, taken := names[g.Name]; taken {
				v.add(nameLine, "", "duplicate gate %s, already on line %d", quote(g.Name), first)
			} else {
				names[g.Name] = nameLine
			}
		}
		v.gateType(g, line)
		v.gateFields(g, line)
	}
	return gates
}

func (v *validator) gateName(g *v1alpha1.Gate, line int) bool {
	if !v.require("name", &g.Name, line, " in a gate") {
		return false
	}
	line = v.line(&g.Name, line)
	switch {
	case slices.Contains(conditionTypes, g.Name):
		v.add(line, "", "gate name %s is taken by one of Chartgate's own condition types; choose another", quote(g.Name))
	case len(g.Name) > maxGateNameLength || !gateNamePattern.MatchString(g.Name):
		v.add(line, "", "%s is not a gate name: letters, digits and -_. between them, %d characters at most",
			quote(g.Name), maxGateNameLength)
	default:
		return true
	}
	return false
}

func (v *validator) gateType(g *v1alpha1.Gate, line int) {
	name := string(g.Type)
	if name == "" && !v.wrong[&g.Type] {
		v.add(v.line(&g.Type, line), "", "\"type\" is missing in a gate (%s)", knownList(v.known.GateTypes))
	}
	v.oneOfKnown("gate type", name, v.line(&g.Type, line), v.known.GateTypes)
}

// gateFields checks what the fields of a gate hold.
func (v *validator) gateFields(g *v1alpha1.Gate, line int) {
	v.fieldsOfType(g, line)
	if c := g.CheckInterval; c != nil && (*c < 1 || *c > maxCheckInterval) {
		v.add(v.line(&g.CheckInterval, line), "", "\"checkInterval\" must be 1 to %d seconds, not %d", maxCheckInterval, *c)
	}
	if len(g.Expression) > maxExpressionLength {
		v.add(v.line(&g.Expression, line), "", "\"expression\" must be %d bytes at most", maxExpressionLength)
	}
	if g.Duration != nil && g.Duration.Duration == 0 {
		v.add(v.line(&g.Duration, line), "", "\"duration\" must be longer than 0")
	}
	if _, err := time.LoadLocation(g.Timezone); err != nil {
		v.add(v.line(&g.Timezone, line), "", "unknown timezone %s; use a name such as Europe/Berlin", quote(g.Timezone))
	}
	if g.Accept != nil && len(g.Accept) == 0 {
		v.add(v.line(&g.Accept, line), "", "\"accept\" is empty, so nothing could approve; leave it out to accept every source")
	}
	for i := range g.Accept {
		at := v.line(&g.Accept[i], line)
		v.oneOfKnown("approval source", string(g.Accept[i]), at,
			[]string{string(v1alpha1.ApprovalFromConfigMap), string(v1alpha1.ApprovalFromReleaseApproval)})
		if slices.Contains(g.Accept[:i], g.Accept[i]) {
			v.add(at, "", "duplicate approval source %s", quote(string(g.Accept[i])))
		}
	}
	if g.Ref != nil {
		if _, err := schema.ParseGroupVersion(g.Ref.APIVersion); err != nil {
			v.add(v.line(&g.Ref.APIVersion, line), "", "%s is not an apiVersion such as apps/v1", quote(g.Ref.APIVersion))
		}
	}
}

// fieldsOfType reports fields that the gate's type needs and that are missing,
// and those it ignores. Types that aren't in the API have rules of their own.
func (v *validator) fieldsOfType(g *v1alpha1.Gate, line int) {
	for _, f := range []struct {
		name     string
		ptr      any
		empty    bool
		required bool
		of       []v1alpha1.GateType
	}{
		{"keys", &g.Keys, g.Keys == nil, false, []v1alpha1.GateType{v1alpha1.GateConfigMapExists, v1alpha1.GateSecretExists}},
		{"accept", &g.Accept, g.Accept == nil, false, []v1alpha1.GateType{v1alpha1.GateManualApproval}},
		{"perChange", &g.PerChange, !g.PerChange, false, []v1alpha1.GateType{v1alpha1.GateManualApproval}},
		{"expression", &g.Expression, g.Expression == "", true, []v1alpha1.GateType{v1alpha1.GateExpression}},
		{"schedule", &g.Schedule, g.Schedule == "", true, []v1alpha1.GateType{v1alpha1.GateTimeWindow}},
		{"duration", &g.Duration, g.Duration == nil, true, []v1alpha1.GateType{v1alpha1.GateTimeWindow}},
		{"timezone", &g.Timezone, g.Timezone == "", false, []v1alpha1.GateType{v1alpha1.GateTimeWindow}},
	} {
		switch at := v.line(f.ptr, line); {
		case v.wrong[f.ptr] || !slices.Contains(gateTypes, g.Type):
		case !f.empty && !slices.Contains(f.of, g.Type):
			v.add(at, "", "%q has no meaning for a gate of type %s; remove it", f.name, g.Type)
		case f.empty && f.required && slices.Contains(f.of, g.Type):
			v.add(at, "", "%q is missing in a gate of type %s", f.name, g.Type)
		}
	}
}
