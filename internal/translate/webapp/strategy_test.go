// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// TestStrategyChangesWithTheStorage: the API server fills in how a rolling update goes, and refuses a
// Deployment that is recreated and still says so.
func TestStrategyChangesWithTheStorage(t *testing.T) {
	rolling := mustRender(t, mustTranslate(t, app(t, "shop", `{image: a}`))).deployment
	recreated := mustRender(t, mustTranslate(t, app(t, "shop", `{image: a, storage: {enabled: true}}`))).deployment
	quarter := intstr.FromString("25%")
	filledIn := &appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &quarter}
	if diff := cmp.Diff(filledIn, rolling.Spec.Strategy.RollingUpdate); diff != "" {
		t.Errorf("the chart leaves the API server something to fill in (-server +chart): %s", diff)
	}
	if diff := cmp.Diff(rolling, patched(t, rolling, rolling, rolling)); diff != "" {
		t.Errorf("a patch of nothing changes something: %s", diff)
	}
	if got := patched(t, rolling, recreated, rolling).Spec.Strategy; got.Type != appsv1.RecreateDeploymentStrategyType || got.RollingUpdate != nil {
		t.Errorf("after storage was turned on: %+v", got)
	}
	if got := patched(t, recreated, rolling, recreated).Spec.Strategy; got.Type != appsv1.RollingUpdateDeploymentStrategyType {
		t.Errorf("after storage was turned off: %+v", got)
	}
}

// patched is what live becomes by the three-way patch that a Helm upgrade makes.
func patched(t *testing.T, original, target, live *appsv1.Deployment) *appsv1.Deployment {
	t.Helper()
	encoded := make([][]byte, 3)
	for i, d := range []*appsv1.Deployment{original, target, live} {
		data, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		encoded[i] = data
	}
	meta, err := strategicpatch.NewPatchMetaFromStruct(appsv1.Deployment{})
	if err != nil {
		t.Fatal(err)
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(encoded[0], encoded[1], encoded[2], meta, true)
	if err != nil {
		t.Fatal(err)
	}
	result, err := strategicpatch.StrategicMergePatch(encoded[2], patch, appsv1.Deployment{})
	if err != nil {
		t.Fatal(err)
	}
	out := &appsv1.Deployment{}
	if err := json.Unmarshal(result, out); err != nil {
		t.Fatal(err)
	}
	return out
}
