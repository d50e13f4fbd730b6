// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/harness"
)

// configChart has one object, named such that two releases don't meet.
var configChart = map[string]string{
	"values.yaml": "message: hello\n",
	"templates/cm.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  message: {{ .Values.message | quote }}
  random: {{ randAlphaNum 16 }}
`,
}

func TestTwoKindsShareAName(t *testing.T) {
	e := sideBySide(t)
	one, two := e.GatedKind(e.Chart("one", configChart)), e.GatedKind(e.Chart("two", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(one, two)})
	one.Create("same", nil)
	first := one.WaitReady("same")
	two.Create("same", nil)
	second := two.WaitReady("same")
	if first.ReleaseName != "same" || second.ReleaseName == "same" || !strings.HasPrefix(second.ReleaseName, "same-") {
		t.Errorf("releases %s and %s", first.ReleaseName, second.ReleaseName)
	}
	one.Delete("same")
	e.WantHistory(first.ReleaseName, "")
	e.WantHistory(second.ReleaseName, "1:deployed")
}

func TestLongNamesWork(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k)})
	name := strings.Repeat("long-", 20) + "name"
	k.Create(name, nil)
	st := k.WaitReady(name)
	if len(st.ReleaseName) > 53 {
		t.Errorf("release %s", st.ReleaseName)
	}
	k.Delete(name)
	e.WantHistory(st.ReleaseName, "")
}

func TestForeignReleasesAndObjectsAreLeftAlone(t *testing.T) {
	e := sideBySide(t)
	chart := e.Chart("one", configChart)
	k := e.GatedKind(chart)
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k)})

	e.Helm("install", "theirs", chart)
	k.Create("theirs", map[string]any{"message": "mine"})
	k.WaitCondition("theirs", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonOwnershipConflict)
	e.WantHistory("theirs", "1:deployed")
	k.Delete("theirs")
	e.WantHistory("theirs", "1:deployed")

	e.Kubectl("create", "configmap", "object", "--from-literal=message=theirs")
	k.Create("object", map[string]any{"message": "mine"})
	st := k.WaitCondition("object", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonOwnershipConflict)
	if !strings.Contains(st.Message, "ConfigMap") || !strings.Contains(st.Message, "object") {
		t.Errorf("the message does not name the object: %s", st.Message)
	}
	k.Delete("object")
	if got := data(e.Object("v1", "ConfigMap", "object"), "message"); got != "theirs" {
		t.Errorf("the object's message is %q", got)
	}
}

func TestRandomValuesMakeOneRevision(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	m := e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "200ms"}})
	k.Create("one", nil)
	k.WaitReady("one")
	before := data(e.Object("v1", "ConfigMap", "one"), "random")
	m.Stop()
	m.Start()
	k.Create("marker", nil)
	k.WaitReady("marker")
	patch(t, e, "v1", "ConfigMap", "one", `{"data":{"random":"edited"}}`)
	e.Eventually("the random value is back", func() error {
		if got := data(e.Object("v1", "ConfigMap", "one"), "random"); got != before {
			return fmt.Errorf("random is %q, was %q", got, before)
		}
		return nil
	})
	e.WantHistory("one", "1:deployed")
}
