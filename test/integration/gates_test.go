// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/test/harness"
)

// onlyWatches turns every poll off, as far as it goes: what happens within a test, a watch brought about.
var onlyWatches = []string{"--reconcile-period", "1h"}

// gateOf returns a gate whose poll comes too late for any test.
func gateOf(name string, gateType v1alpha1.GateType, fields map[string]any) map[string]any {
	g := map[string]any{"name": name, "type": string(gateType), "checkInterval": int64(3600)}
	maps.Copy(g, fields)
	return g
}

// gated is the spec of a resource with gates.
func gated(message string, gates ...map[string]any) map[string]any {
	list := make([]any, 0, len(gates))
	for _, g := range gates {
		list = append(list, g)
	}
	return map[string]any{"message": message, "gates": list}
}

func createConfigMap(e *harness.Env, name string, content map[string]string) {
	e.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}, Data: content}
	if err := e.Client.Create(e.Ctx, cm); err != nil {
		e.Fatal(err)
	}
}

func deleteConfigMap(e *harness.Env, name string) {
	e.Helper()
	if err := e.Client.Delete(e.Ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}); err != nil {
		e.Fatal(err)
	}
}

// waitGate waits until the gate is judged so.
func waitGate(k *harness.Kind, name, gateName string, verdict v1alpha1.Verdict, reason string) v1alpha1.GateStatus {
	var found v1alpha1.GateStatus
	k.WaitFor(name, fmt.Sprintf("gate %s %s (%s)", gateName, verdict, reason), func(st v1alpha1.CommonStatus) error {
		for _, g := range st.Gates {
			if found = g; g.Name == gateName && g.Verdict == verdict && g.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("gates are %+v; %s", st.Gates, harness.Conditions(st))
	})
	return found
}

// waitHeld waits until the resource's change is held.
func waitHeld(k *harness.Kind, name string) v1alpha1.CommonStatus {
	return k.WaitCondition(name, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForGates)
}

// countEvents returns how many events of the reason the test's namespace has.
func countEvents(e *harness.Env, reason, about string) int {
	e.Helper()
	list, err := e.Kube.CoreV1().Events(e.Namespace).List(e.Ctx, metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	n := 0
	for _, ev := range list.Items {
		if ev.Reason == reason && strings.Contains(ev.Message, about) {
			n += max(int(ev.Count), 1)
		}
	}
	return n
}

func TestGateHoldsAnInstallAndOpensAtOnce(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	since := time.Now()
	k.Create("one", gated("first", gateOf("settings", v1alpha1.GateConfigMapExists, map[string]any{"keys": []any{"color"}})))
	st := waitHeld(k, "one")
	if st.Phase != v1alpha1.PhasePending || st.GatesPassed != "0/1" || st.Pending == nil || st.Pending.Plan != "" || !strings.Contains(st.Message, "kubectl create configmap settings") {
		t.Errorf("status while held: %+v", st)
	}
	if c := harness.Condition(st, v1alpha1.ConditionAllGatesPassed); c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonGatesCheckComplete || !strings.Contains(c.Message, "settings") {
		t.Errorf("AllGatesPassed: %+v", c)
	}
	if c := harness.Condition(st, "settings"); c == nil || c.Status != metav1.ConditionFalse || c.Reason != gate.ReasonConfigMapMissing {
		t.Errorf("condition of the gate: %+v", c)
	}
	createConfigMap(e, "settings", nil)
	e.Eventually("the missing key is named", func() error {
		if _, st := k.Get("one"); !strings.Contains(st.Message, "lacks key color") {
			return errors.New(st.Message)
		}
		return nil
	})
	e.WantHistory("one", "")
	for _, w := range requests(t, e, since, writes()) {
		if !strings.Contains(w, "/status ") {
			t.Errorf("while held, the operator writes: %s", w)
		}
	}

	opened := time.Now()
	patch(t, e, "v1", "ConfigMap", "settings", `{"data":{"color":"red"}}`)
	waitHistory(e, "one", "1:deployed")
	t.Logf("from the gate's opening to the release: %s", time.Since(opened).Round(time.Millisecond))
	st = k.WaitReady("one")
	if st.GatesPassed != "1/1" || st.Pending != nil || st.Gates[0].Verdict != v1alpha1.VerdictPassed {
		t.Errorf("status when released: %+v", st)
	}

	// Closed again: the release stays, and the next change waits.
	moved := st.Gates[0].LastTransitionTime
	deleteConfigMap(e, "settings")
	g := waitGate(k, "one", "settings", v1alpha1.VerdictWaiting, gate.ReasonConfigMapMissing)
	if g.LastTransitionTime.Before(&moved) {
		t.Errorf("the verdict changed at %s, and before at %s", g.LastTransitionTime, moved)
	}
	k.WaitReady("one")
	patch(t, e, "v1", "ConfigMap", "one", `{"data":{"message":"edited"}}`)
	message(t, e, "one", "first")
	k.Patch("one", `{"spec":{"message":"second"}}`)
	st = waitHeld(k, "one")
	if st.Phase != v1alpha1.PhaseDeployed || st.Revision != 1 {
		t.Errorf("status while an upgrade is held: %+v", st)
	}
	patch(t, e, "v1", "ConfigMap", "one", `{"data":{"message":"edited"}}`)
	message(t, e, "one", "first") // what is released is repaired
	e.WantHistory("one", "1:deployed")

	// A change of mind clears the hold.
	k.Patch("one", `{"spec":{"message":"first"}}`)
	if st = k.WaitReady("one"); st.Pending != nil || st.Revision != 1 {
		t.Errorf("status after the change of mind: %+v", st)
	}
	// What is applied is put back, gate or no gate.
	e.Helm("uninstall", "one")
	waitHistory(e, "one", "1:deployed")
	message(t, e, "one", "first")

	k.Patch("one", `{"spec":{"gates":[]}}`)
	st = k.WaitFor("one", "has no gates", func(st v1alpha1.CommonStatus) error {
		if len(st.Gates) > 0 || st.GatesPassed != "" || harness.Condition(st, "settings") != nil || harness.Condition(st, v1alpha1.ConditionAllGatesPassed) != nil {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
	for reason, want := range map[string]int{v1alpha1.EventInitializing: 1, v1alpha1.EventChangeHeld: 2, v1alpha1.EventGatePassed: 1, v1alpha1.EventGateWaiting: 2} {
		e.Eventually("events "+reason, func() error {
			if got := countEvents(e, reason, ""); got != want {
				return fmt.Errorf("%d, want %d", got, want)
			}
			return nil
		})
	}
}
