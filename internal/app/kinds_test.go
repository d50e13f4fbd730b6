// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/watch"
)

func TestGatesOfAKindAreCheckedAtTheStart(t *testing.T) {
	_, err := loadKinds(&options{watchesFile: "watches.yaml"}, nil, []watch.Watch{{
		Line:  7,
		Gates: []v1alpha1.Gate{{Name: "rule", Type: v1alpha1.GateExpression, Expression: "self.spec.size >"}},
	}})
	if err == nil || !strings.Contains(err.Error(), "watches.yaml:7: gate rule: expression, line 1, column ") {
		t.Errorf("error: %v", err)
	}
}

func TestAllGateTypesAreKnown(t *testing.T) {
	want := []string{"ConfigMapExists", "DependencyReady", "Expression", "ManualApproval", "SecretExists", "TimeWindow"}
	if got := known().GateTypes; !slices.Equal(got, want) {
		t.Errorf("gate types %v, want %v", got, want)
	}
}
