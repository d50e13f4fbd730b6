// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/plan"
	"github.com/chartgate/chartgate/test/harness"
)

// secretChart holds a secret in a Secret, and repeats it where it should not.
var secretChart = map[string]string{
	"values.yaml": "password: \"\"\nmessage: hello\n",
	"templates/all.yaml": `apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}"}
stringData: {password: "{{ .Values.password }}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data:
  message: {{ .Values.message | quote }}
  url: "postgres://admin:{{ .Values.password }}@db/app"
{{- if eq .Values.message "fail" }}{{ fail (printf "can't use %s" .Values.password) }}{{ end }}
`,
}

func TestApprovalNeverShowsASecret(t *testing.T) {
	const canary = "c4nary-Value/with:signs"
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("secret", secretChart))
	operator := e.StartProcess(harness.ProcessOptions{Watches: harness.Watches(k), Args: append([]string{"--zap-log-level", "debug"}, onlyWatches...)})
	createSecret(e, "credentials", map[string]string{"password": canary})
	spec := gated("first", gateOf("credentials", v1alpha1.GateSecretExists, map[string]any{"keys": []any{"password"}}), gateOf("release", v1alpha1.GateManualApproval, nil))
	spec["password"] = canary
	k.Create("one", spec)
	waitHeld(k, "one")
	check := func(what string) {
		t.Helper()
		obj, _ := k.Get("one")
		shown, err := json.Marshal([]any{obj.Object["status"], e.Object("v1", "ConfigMap", planName(k, "one"))})
		if err != nil {
			t.Fatal(err)
		}
		events, err := e.Kube.CoreV1().Events(e.Namespace).List(e.Ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		told, err := json.Marshal(events)
		if err != nil {
			t.Fatal(err)
		}
		for place, text := range map[string][]byte{"status or plan": shown, "an event": told} {
			if strings.Contains(string(text), canary) {
				t.Errorf("%s: the canary is in %s: %s", what, place, text)
			}
		}
	}
	waitPlan(e, k, "one")
	check("held install")
	createConfigMap(e, "approval-one", map[string]string{"approved": "true"})
	k.WaitReady("one")
	check("released")
	deleteConfigMap(e, "approval-one")
	k.Patch("one", `{"spec":{"message":"second","password":"`+canary+`-2"}}`)
	waitHeld(k, "one")
	waitPlan(e, k, "one")
	check("held upgrade")

	// What can't be rendered shows as the failure it is.
	k.Patch("one", `{"spec":{"message":"fail"}}`)
	st := k.WaitCondition("one", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRenderFailed)
	if st.Phase != v1alpha1.PhaseDeploymentFailed {
		t.Errorf("phase %s", st.Phase)
	}
	check("failed")
	k.Patch("one", `{"spec":{"message":"hello"}}`)
	waitHeld(k, "one")
	e.WantHistory("one", "1:deployed")
	logHoldsNo(t, operator, canary)
}

func TestApprovalPlanOfAForeignNameIsNotTouched(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	createConfigMap(e, planName(k, "one"), map[string]string{"mine": "yes"})
	k.Create("one", gated("a", gateOf("release", v1alpha1.GateManualApproval, nil)))
	st := k.WaitFor("one", "has a plan", func(st v1alpha1.CommonStatus) error {
		if st.Pending == nil || st.Pending.Plan == "" {
			return fmt.Errorf("%+v", st.Pending)
		}
		return nil
	})
	if st.Pending.Plan != plan.Names(k.GroupKind(), "one")[1] || !strings.Contains(st.Message, st.Pending.Plan) {
		t.Errorf("plan %s; %s", st.Pending.Plan, st.Message)
	}
	e.WaitObject("v1", "ConfigMap", st.Pending.Plan, nil)
	createConfigMap(e, "approval-one", map[string]string{"approved": "true"})
	k.WaitReady("one")
	e.WaitObjectGone("v1", "ConfigMap", st.Pending.Plan)
	if got := data(e.Object("v1", "ConfigMap", planName(k, "one")), "mine"); got != "yes" {
		t.Error("somebody else's ConfigMap was changed")
	}
}

func TestApprovalIsNotAskedForWhatAltersNothing(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", smallChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	k.Create("one", map[string]any{"message": "first"})
	before := k.WaitReady("one")
	k.Patch("one", `{"spec":{"unused":"by the chart","gates":[{"name":"release","type":"ManualApproval"}]}}`)
	st := k.WaitReady("one")
	if st.Revision != 1 || st.AppliedDigest == before.AppliedDigest || st.Pending != nil || st.GatesPassed != "0/1" {
		t.Errorf("status: %+v", st)
	}
	e.WantHistory("one", "1:deployed")
}
