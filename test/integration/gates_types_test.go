// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/test/harness"
)

// story is how a gate of one type opens and closes.
type story struct {
	gate           map[string]any
	closed, opened string // reasons
	open, close    func(e *harness.Env, k *harness.Kind)
}

func stories() map[string]story {
	return map[string]story{
		"SecretExists": {
			gate:   gateOf("credentials", v1alpha1.GateSecretExists, map[string]any{"keys": []any{"password"}}),
			closed: gate.ReasonSecretMissing, opened: gate.ReasonSecretFound,
			open: func(e *harness.Env, _ *harness.Kind) {
				createSecret(e, "credentials", map[string]string{"password": "canary-of-a-gate"})
			},
			close: func(e *harness.Env, _ *harness.Kind) {
				if err := e.Client.Delete(e.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "credentials"}}); err != nil {
					e.Fatal(err)
				}
			},
		},
		"DependencyReady, of its own kind": {
			gate:   gateOf("first", v1alpha1.GateDependencyReady, nil),
			closed: gate.ReasonDependencyMissing, opened: gate.ReasonDependencyReady,
			open:  func(_ *harness.Env, k *harness.Kind) { k.Create("first", map[string]any{"message": "x"}) },
			close: func(_ *harness.Env, k *harness.Kind) { k.Delete("first") },
		},
		"DependencyReady, of another kind": {
			gate: gateOf("cache", v1alpha1.GateDependencyReady, map[string]any{
				"ref": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "cache"},
			}),
			closed: gate.ReasonDependencyMissing, opened: gate.ReasonDependencyReady,
			open: func(e *harness.Env, _ *harness.Kind) {
				e.Kubectl("create", "deployment", "cache", "--image=registry.test/cache:1")
			},
			close: func(e *harness.Env, _ *harness.Kind) { e.Kubectl("delete", "deployment", "cache") },
		},
		"Expression": {
			gate: gateOf("quota", v1alpha1.GateExpression, map[string]any{
				"ref":        map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "quota"},
				"expression": "object != null && int(object.data.left) > 0 && self.metadata.name == 'one'",
			}),
			closed: gate.ReasonExpressionFalse, opened: gate.ReasonExpressionTrue,
			open: func(e *harness.Env, _ *harness.Kind) {
				createConfigMap(e, "quota", map[string]string{"left": "2"})
			},
			close: func(e *harness.Env, _ *harness.Kind) {
				e.Kubectl("patch", "configmap", "quota", "-p", `{"data":{"left":"0"}}`)
			},
		},
		"ManualApproval": {
			gate:   gateOf("release", v1alpha1.GateManualApproval, nil),
			closed: gate.ReasonApprovalPending, opened: gate.ReasonApproved,
			open: func(e *harness.Env, _ *harness.Kind) {
				e.Kubectl("create", "configmap", "approval-one", "--from-literal=approved=true")
			},
			close: func(e *harness.Env, _ *harness.Kind) { deleteConfigMap(e, "approval-one") },
		},
	}
}

func createSecret(e *harness.Env, name string, content map[string]string) {
	e.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}, StringData: content}
	if err := e.Client.Create(e.Ctx, s); err != nil {
		e.Fatal(err)
	}
}

func TestGateOfEachTypeHoldsOpensAndClosesAgain(t *testing.T) {
	t.Parallel()
	for name, s := range stories() {
		t.Run(name, func(t *testing.T) {
			e := sideBySide(t)
			k := e.GatedKind(e.Chart("one", configChart))
			e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
			gateName := fmt.Sprint(s.gate["name"])
			since := time.Now()
			k.Create("one", gated("first", s.gate))
			waitGate(k, "one", gateName, v1alpha1.VerdictWaiting, s.closed)
			waitHeld(k, "one")
			e.WantHistory("one", "")
			for _, w := range requests(t, e, since, writes()) {
				if !strings.Contains(w, "/status ") && !strings.HasSuffix(w, "-one-plan") {
					t.Errorf("while held, the operator writes: %s", w)
				}
			}
			s.open(e, k)
			k.WaitReady("one")
			e.WantHistory("one", "1:deployed")
			waitGate(k, "one", gateName, v1alpha1.VerdictPassed, s.opened)

			s.close(e, k)
			e.Eventually("the gate is closed again", func() error {
				if _, st := k.Get("one"); st.GatesPassed != "0/1" {
					return fmt.Errorf("gates are %+v", st.Gates)
				}
				return nil
			})
			k.WaitReady("one")
			k.Patch("one", `{"spec":{"message":"second"}}`)
			waitHeld(k, "one")
			patch(t, e, "v1", "ConfigMap", "one", `{"data":{"message":"edited"}}`)
			message(t, e, "one", "first")
			e.WantHistory("one", "1:deployed")
			k.Delete("one") // never held
			e.WantHistory("one", "")
			e.WaitObjectGone("v1", "ConfigMap", "one")
		})
	}
}

func TestGateWindowOpensAndClosesByTheClock(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	if now := time.Now(); now.Second() >= 52 {
		time.Sleep(time.Until(now.Truncate(time.Minute).Add(time.Minute + time.Second)))
	}
	opens := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
	k.Create("one", gated("first", gateOf("window", v1alpha1.GateTimeWindow, map[string]any{
		"schedule": fmt.Sprintf("%d %d * * *", opens.Minute(), opens.Hour()), "duration": "4s",
	})))
	waitGate(k, "one", "window", v1alpha1.VerdictWaiting, gate.ReasonWindowClosed)
	e.WantHistory("one", "")
	time.Sleep(time.Until(opens))
	waitHistory(e, "one", "1:deployed")
	if late := time.Since(opens); late > 4*time.Second {
		t.Errorf("released %s after the window opened", late)
	}
	waitGate(k, "one", "window", v1alpha1.VerdictWaiting, gate.ReasonWindowClosed) // 4 s later, by itself
	k.WaitReady("one")
}

func TestGatesSayWhatTheyCanNotLookAt(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	ref := func(apiVersion, kind, namespace string) map[string]any {
		return map[string]any{"ref": map[string]any{"apiVersion": apiVersion, "kind": kind, "name": "x", "namespace": namespace}}
	}
	k.Create("one", gated("first",
		gateOf("missing", v1alpha1.GateDependencyReady, nil),
		gateOf("elsewhere", v1alpha1.GateConfigMapExists, ref("v1", "ConfigMap", "kube-system")),
		gateOf("everywhere", v1alpha1.GateDependencyReady, ref("v1", "Namespace", "")),
		gateOf("unserved", v1alpha1.GateDependencyReady, ref("nobody.test/v1", "Thing", "")),
		gateOf("wrong", "Moonphase", nil),
		gateOf("secretive", v1alpha1.GateSecretExists, nil),
	))
	for name, want := range map[string]struct {
		verdict v1alpha1.Verdict
		reason  string
	}{
		"missing":    {v1alpha1.VerdictWaiting, gate.ReasonDependencyMissing},
		"elsewhere":  {v1alpha1.VerdictWaiting, gate.ReasonReferenceNotAllowed},
		"everywhere": {v1alpha1.VerdictWaiting, gate.ReasonReferenceNotAllowed},
		"unserved":   {v1alpha1.VerdictUnknown, gate.ReasonKindNotServed},
		"wrong":      {v1alpha1.VerdictWaiting, gate.ReasonUnknownGateType},
		"secretive":  {v1alpha1.VerdictWaiting, gate.ReasonSecretMissing}, // all that is missing shows at once
	} {
		waitGate(k, "one", name, want.verdict, want.reason)
	}
	st := waitHeld(k, "one")
	if c := harness.Condition(st, "unserved"); c == nil || c.Status != metav1.ConditionUnknown || st.GatesPassed != "0/6" {
		t.Errorf("condition of a gate that can't be judged: %+v; %s", c, st.GatesPassed)
	}
	e.WantHistory("one", "")
	k.Delete("one")
}

func TestGateThatIsOptionalNeverHolds(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	k.Create("one", gated("first",
		gateOf("settings", v1alpha1.GateConfigMapExists, map[string]any{"mandatory": false}),
		gateOf("broken", v1alpha1.GateExpression, map[string]any{"mandatory": false, "expression": "1 +"}),
	))
	st := k.WaitReady("one")
	waitGate(k, "one", "settings", v1alpha1.VerdictWaiting, gate.ReasonConfigMapMissing)
	if c := harness.Condition(st, v1alpha1.ConditionAllGatesPassed); c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "settings") || st.GatesPassed != "0/2" {
		t.Errorf("AllGatesPassed: %+v; %s", c, st.GatesPassed)
	}
}

func TestGatesOfTheKindCanNotBeWeakened(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	k.Extra = "  gates:\n  - {name: settings, type: ConfigMapExists, checkInterval: 3600}\n"
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	k.Create("bare", map[string]any{"message": "x"})
	k.Create("one", gated("first",
		gateOf("settings", v1alpha1.GateConfigMapExists, map[string]any{"mandatory": false, "ref": map[string]any{"name": "kube-root-ca.crt"}}),
		gateOf("more", v1alpha1.GateConfigMapExists, nil),
	))
	waitHeld(k, "bare")
	st := waitHeld(k, "one")
	if c := harness.Condition(st, v1alpha1.ConditionAllGatesPassed); c == nil || !strings.Contains(c.Message, "watches.yaml") || st.GatesPassed != "0/2" || !st.Gates[0].Mandatory {
		t.Errorf("status: %+v", st)
	}
	createConfigMap(e, "settings", nil)
	k.WaitReady("bare")
	waitGate(k, "one", "more", v1alpha1.VerdictWaiting, gate.ReasonConfigMapMissing)
	createConfigMap(e, "more", nil)
	k.WaitReady("one")
}

func TestGateThatIsWrongStallsUntilItIsMended(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	wrong := func(fields map[string]any) map[string]any {
		return gateOf("rule", v1alpha1.GateExpression, fields)
	}
	k.Create("one", gated("first", wrong(map[string]any{"expression": "self.spec.message = 'first'"})))
	st := k.WaitCondition("one", v1alpha1.ConditionStalled, metav1.ConditionTrue, gate.ReasonExpressionError)
	if c := harness.Condition(st, v1alpha1.ConditionStalled); !strings.Contains(c.Message, "line 1, column ") {
		t.Errorf("the message names no position: %s", c.Message)
	}
	e.WantHistory("one", "")
	k.Patch("one", `{"spec":{"gates":[{"name":"rule","type":"TimeWindow","schedule":"never","duration":"1h"}]}}`)
	k.WaitCondition("one", v1alpha1.ConditionStalled, metav1.ConditionTrue, gate.ReasonInvalidGate)
	k.Patch("one", `{"spec":{"gates":[{"name":"rule","type":"Expression","expression":"self.spec.message == 'first'"}]}}`)
	k.WaitReady("one")
	// What is released stays up under a gate that is wrong.
	k.Patch("one", `{"spec":{"gates":[{"name":"rule","type":"Expression","expression":"nonsense("}]}}`)
	k.WaitCondition("one", v1alpha1.ConditionStalled, metav1.ConditionTrue, gate.ReasonExpressionError)
	patch(t, e, "v1", "ConfigMap", "one", `{"data":{"message":"edited"}}`)
	message(t, e, "one", "first")
	k.Patch("one", `{"spec":{"message":"second"}}`)
	k.WaitCondition("one", v1alpha1.ConditionStalled, metav1.ConditionTrue, gate.ReasonExpressionError)
	e.WaitObject("v1", "ConfigMap", "one", func(o *unstructured.Unstructured) error {
		if got := data(o, "message"); got != "first" {
			return fmt.Errorf("message is %q", got)
		}
		return nil
	})
	e.WantHistory("one", "1:deployed")
}

func TestGatesThatWaitForEachOtherAreNamed(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	k.Create("a", gated("x", gateOf("b", v1alpha1.GateDependencyReady, nil)))
	k.Create("b", gated("x", gateOf("a", v1alpha1.GateDependencyReady, nil)))
	waitGate(k, "a", "b", v1alpha1.VerdictWaiting, gate.ReasonDependencyCycle)
	waitGate(k, "b", "a", v1alpha1.VerdictWaiting, gate.ReasonDependencyCycle)
	k.Patch("a", `{"spec":{"gates":[]}}`)
	k.WaitReady("a")
	k.WaitReady("b")
}

func TestGatesLookFurtherWhereTheWatchAllowsIt(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	k.Extra = "  allowCrossNamespaceRefs: true\n"
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	k.Create("one", gated("first",
		gateOf("elsewhere", v1alpha1.GateConfigMapExists, map[string]any{"ref": map[string]any{"name": "extension-apiserver-authentication", "namespace": "kube-system"}}),
		gateOf("everywhere", v1alpha1.GateExpression, map[string]any{
			"ref":        map[string]any{"apiVersion": "v1", "kind": "Namespace", "name": e.Namespace},
			"expression": "object.status.phase == 'Active'",
		}),
	))
	if st := k.WaitReady("one"); st.GatesPassed != "2/2" {
		t.Errorf("gates: %+v", st.Gates)
	}
}
