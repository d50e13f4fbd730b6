// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/harness"
)

// leakyChart puts a secret value where everybody sees it, and fails with it on demand.
var leakyChart = map[string]string{
	"values.yaml": "message: hello\ndb: {word: none, pin: 0}\n",
	"templates/all.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data:
  message: {{ .Values.message | quote }}
  url: "postgres://admin:{{ .Values.db.word }}@db/app?pin={{ .Values.db.pin }}"
{{- if eq .Values.message "fail" }}{{ fail (printf "can't use %s" .Values.db.word) }}{{ end }}
`,
	"templates/NOTES.txt": "The word is {{ .Values.db.word }}.\n",
}

// valuesRef is an entry of spec.release.valuesFrom.
func valuesRef(kind, name, key string) map[string]any {
	return map[string]any{"kind": kind, "name": name, "key": key}
}

// updateConfigMap puts other content into a ConfigMap.
func updateConfigMap(e *harness.Env, name string, content map[string]string) {
	e.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}, Data: content}
	if err := e.Client.Update(e.Ctx, cm); err != nil {
		e.Fatal(err)
	}
}

// updateSecret puts other content into a Secret.
func updateSecret(e *harness.Env, name, key, content string) {
	e.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}, StringData: map[string]string{key: content}}
	if err := e.Client.Update(e.Ctx, s); err != nil {
		e.Fatal(err)
	}
}

func TestValuesFromASecretShowNowhere(t *testing.T) {
	const canary = "c4nary-Value/with:signs"
	const pin = "73519264"
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("leaky", leakyChart))
	operator := e.StartProcess(harness.ProcessOptions{Watches: harness.Watches(k), Args: append([]string{"--zap-log-level", "debug"}, onlyWatches...)})
	check := func(what string) {
		t.Helper()
		obj, _ := k.Get("one")
		shown, err := json.Marshal([]any{obj.Object, e.Object("v1", "ConfigMap", planName(k, "one"))})
		if err != nil {
			t.Fatal(err)
		}
		for place, text := range map[string]string{"resource or plan": string(shown), "an event": e.Kubectl("get", "events", "-o", "json")} {
			if strings.Contains(text, canary) || strings.Contains(text, pin) {
				t.Errorf("%s: a value of the Secret is in %s: %s", what, place, text)
			}
		}
	}
	spec := gated("first", gateOf("release", v1alpha1.GateManualApproval, nil))
	spec["release"] = map[string]any{"valuesFrom": []any{valuesRef("Secret", "credentials", "db.yaml")}}
	k.Create("one", spec)
	st := k.WaitCondition("one", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonValuesNotFound)
	if want := "Secret credentials is missing in namespace " + e.Namespace; !strings.Contains(st.Message, want) || !strings.Contains(st.Message, "db.yaml") {
		t.Errorf("message %q", st.Message)
	}
	createSecret(e, "credentials", map[string]string{"other": "x"})
	k.WaitFor("one", "lacks the key", func(st v1alpha1.CommonStatus) error {
		if !strings.Contains(st.Message, "has no key db.yaml") {
			return errors.New(st.Message)
		}
		return nil
	})
	updateSecret(e, "credentials", "db.yaml", "db: ["+canary)
	k.WaitCondition("one", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidValues)
	check("broken")

	updateSecret(e, "credentials", "db.yaml", "message: of the Secret\ndb: {word: "+canary+", pin: "+pin+"}\n")
	waitHeld(k, "one")
	waitPlan(e, k, "one")
	check("held install")
	createConfigMap(e, "approval-one", map[string]string{"approved": "true"})
	k.WaitReady("one")
	check("released")
	if got := data(e.Object("v1", "ConfigMap", "one"), "url"); got != "postgres://admin:"+canary+"@db/app?pin="+pin {
		t.Errorf("url %q", got)
	}
	if got := data(e.Object("v1", "ConfigMap", "one"), "message"); got != "first" {
		t.Errorf("message %q: the spec's value does not win", got)
	}
	deleteConfigMap(e, "approval-one")

	// Another value is a change like any other. Neither it nor the one before shows in the plan.
	updateSecret(e, "credentials", "db.yaml", "db: {word: "+canary+"-two, pin: "+pin+"1}\n")
	waitHeld(k, "one")
	waitPlan(e, k, "one")
	check("held upgrade")
	createConfigMap(e, "approval-one", map[string]string{"approved": "true"})
	k.WaitFor("one", "is upgraded", func(st v1alpha1.CommonStatus) error {
		if st.Revision != 2 || st.Pending != nil {
			return fmt.Errorf("revision %d, pending %v", st.Revision, st.Pending)
		}
		return nil
	})
	deleteConfigMap(e, "approval-one")

	// What was released is known to come from a Secret, though the spec says so no more.
	k.Patch("one", `{"spec":{"db":{"word":"none","pin":1},"release":{"valuesFrom":null}}}`)
	waitHeld(k, "one")
	waitPlan(e, k, "one")
	check("held upgrade without the Secret")
	if diff := e.Object("v1", "ConfigMap", planName(k, "one")); !strings.Contains(data(diff, "diff"), "postgres://admin:none@db/app?pin=1") {
		t.Errorf("the plan does not show what is no secret: %v", diff.Object["data"])
	}
	k.Patch("one", `{"spec":{"db":null,"message":"fail","release":{"valuesFrom":[{"kind":"Secret","name":"credentials","key":"db.yaml"}]}}}`)
	k.WaitCondition("one", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRenderFailed)
	check("failed")
	e.WantHistory("one", "1:superseded 2:deployed")
	logHoldsNo(t, operator, canary)
	logHoldsNo(t, operator, pin)
}

func TestValuesFromAreWatched(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("leaky", leakyChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: append([]string{"--reconcile-period", "1h"}, onlyWatches...)})
	createConfigMap(e, "settings", map[string]string{"values.yaml": "message: first\ndb: {word: a}\n"})
	createSecret(e, "credentials", map[string]string{"values.yaml": "db: {word: b}\n"})
	k.Create("one", map[string]any{"release": map[string]any{"valuesFrom": []any{
		valuesRef("ConfigMap", "settings", "values.yaml"), valuesRef("Secret", "credentials", "values.yaml"),
		map[string]any{"kind": "Secret", "name": "later", "optional": true},
	}}})
	k.WaitReady("one")
	wait := func(message, word string) {
		t.Helper()
		start := time.Now()
		e.WaitObject("v1", "ConfigMap", "one", func(obj *unstructured.Unstructured) error {
			if url := "postgres://admin:" + word + "@db/app?pin=0"; data(obj, "message") != message || data(obj, "url") != url {
				return fmt.Errorf("holds %v", obj.Object["data"])
			}
			return nil
		})
		t.Logf("released %s after the change", time.Since(start).Round(time.Millisecond))
	}
	wait("first", "b")
	updateConfigMap(e, "settings", map[string]string{"values.yaml": "message: second\n"})
	wait("second", "b")
	updateSecret(e, "credentials", "values.yaml", "db: {word: c}\n")
	wait("second", "c")
	createSecret(e, "later", map[string]string{"values.yaml": "db: {word: d}\n"})
	wait("second", "d")

	// While they are missing, what is released stays and is repaired.
	before := k.WaitReady("one")
	if err := e.Kube.CoreV1().Secrets(e.Namespace).Delete(e.Ctx, "credentials", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	k.WaitCondition("one", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonValuesNotFound)
	deleteConfigMap(e, "one")
	wait("second", "d")
	createSecret(e, "credentials", map[string]string{"values.yaml": "db: {word: c}\n"})
	if st := k.WaitReady("one"); st.Revision != before.Revision || st.AppliedDigest != before.AppliedDigest {
		t.Errorf("revision %d, before %d", st.Revision, before.Revision)
	}
}
