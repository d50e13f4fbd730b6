// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/harness"
)

func TestReleaseFollowsItsResource(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", smallChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k)})

	k.Create("one", map[string]any{"message": "first", "release": map[string]any{"maxHistory": int64(5)}})
	st := k.WaitReady("one")
	if st.Phase != v1alpha1.PhaseDeployed || st.Revision != 1 || st.ReleaseName != "one" || st.ReleaseNamespace != e.Namespace {
		t.Errorf("status after install: %+v", st)
	}
	if st.Chart != "small" || st.LastDeployedVersion != "0.1.0" || st.AppVersion != "1.0" || len(st.AppliedDigest) != 64 {
		t.Errorf("chart in the status: %+v", st)
	}
	if len(st.History) != 1 || st.History[0].Revision != 1 || len(st.History[0].Digest) != 64 {
		t.Errorf("history in the status: %+v", st.History)
	}
	e.WantHistory("one", "1:deployed")
	if labels := e.History("one")[0].Labels; labels[v1alpha1.LabelDigest] != st.AppliedDigest[:40] || labels[v1alpha1.LabelRevision] != "1" {
		t.Errorf("labels of the release: %v", labels)
	}

	k.Patch("one", `{"spec":{"message":"second"}}`)
	st = k.WaitReady("one")
	if st.Revision != 2 || st.ObservedGeneration != 2 {
		t.Errorf("status after upgrade: %+v", st)
	}
	e.WantHistory("one", "1:superseded 2:deployed")
	if got := data(e.Object("v1", "ConfigMap", "one"), "message"); got != "second" {
		t.Errorf("message is %q", got)
	}

	k.Delete("one")
	e.WantHistory("one", "")
	for kind, apiVersion := range map[string]string{"ConfigMap": "v1", "Service": "v1", "Deployment": "apps/v1"} {
		e.WaitObjectGone(apiVersion, kind, "one")
	}
}

func TestStatusShowsNoManifestAndNoNotes(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", smallChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k)})
	k.Create("one", map[string]any{"message": "canary-value"})
	k.WaitReady("one")
	obj, _ := k.Get("one")
	status, err := json.Marshal(obj.Object["status"])
	if err != nil {
		t.Fatal(err)
	}
	for _, forbidden := range []string{`"manifest"`, "canary-value", "apiVersion", "The password"} {
		if strings.Contains(string(status), forbidden) {
			t.Errorf("the status holds %q: %s", forbidden, status)
		}
	}
	var parsed struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if err := json.Unmarshal(status, &parsed); err != nil {
		t.Fatal(err)
	}
	for _, c := range parsed.Conditions {
		if c.Reason == "" || c.ObservedGeneration != obj.GetGeneration() || c.LastTransitionTime.IsZero() {
			t.Errorf("condition is not complete: %+v", c)
		}
	}
}

func TestDriftIsRepaired(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", smallChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{"message": "right"})
	k.WaitReady("one")

	before := e.Object("v1", "Service", "one").GetUID()
	if err := e.Client.Delete(e.Ctx, e.Object("v1", "Service", "one")); err != nil {
		t.Fatal(err)
	}
	e.WaitObject("v1", "Service", "one", func(o *unstructured.Unstructured) error {
		if o.GetUID() == before {
			return fmt.Errorf("not deleted yet")
		}
		return nil
	})
	patch(t, e, "v1", "ConfigMap", "one", `{"data":{"message":"wrong","extra":"mine"}}`)
	cm := e.WaitObject("v1", "ConfigMap", "one", func(o *unstructured.Unstructured) error {
		if got := data(o, "message"); got != "right" {
			return fmt.Errorf("message is %q", got)
		}
		return nil
	})
	if got := data(cm, "extra"); got != "mine" {
		t.Errorf("a field that the release does not have is %q, want it left alone", got)
	}
	patch(t, e, "apps/v1", "Deployment", "one", `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"evil:1"}]}}}}`)
	e.WaitObject("apps/v1", "Deployment", "one", func(o *unstructured.Unstructured) error {
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if image := containers[0].(map[string]any)["image"]; image != "registry.test/app:1" {
			return fmt.Errorf("image is %v", image)
		}
		return nil
	})
	patch(t, e, "v1", "Service", "one", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`)
	e.WaitObject("v1", "Service", "one", func(o *unstructured.Unstructured) error {
		if o.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" {
			return fmt.Errorf("labels are %v", o.GetLabels())
		}
		return nil
	})
	e.WantHistory("one", "1:deployed")
	e.Eventually("event", func() error {
		events, err := e.Kube.CoreV1().Events(e.Namespace).List(e.Ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, ev := range events.Items {
			if ev.Reason == v1alpha1.EventDriftCorrected && strings.Contains(ev.Message, "Service "+e.Namespace+"/one created") {
				return nil
			}
		}
		return fmt.Errorf("no DriftCorrected event for the Service among %d", len(events.Items))
	})
}

// An object that an upgrade adds, and nothing else, is looked after like all others.
func TestObjectThatAnUpgradeAddsIsRepaired(t *testing.T) {
	e := sideBySide(t)
	k := e.OpenKind(e.Chart("grows", map[string]string{
		"templates/one.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n",
		"templates/more.yaml": "{{ if .Values.more }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-more}\n{{ end }}\n",
	}))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{})
	k.WaitReady("one")
	k.Patch("one", `{"spec":{"more":true}}`)
	k.WaitFor("one", "is upgraded", func(st v1alpha1.CommonStatus) error {
		if st.Revision != 2 || st.Phase != v1alpha1.PhaseDeployed {
			return fmt.Errorf("revision %d, phase %s", st.Revision, st.Phase)
		}
		return nil
	})
	more := e.Object("v1", "ConfigMap", "one-more")
	if more == nil {
		t.Fatal("the upgrade did not add it")
	}
	if err := e.Client.Delete(e.Ctx, more); err != nil {
		t.Fatal(err)
	}
	e.WaitObject("v1", "ConfigMap", "one-more", func(o *unstructured.Unstructured) error {
		if o.GetUID() == more.GetUID() {
			return fmt.Errorf("not deleted yet")
		}
		return nil
	})
}

func TestRestartContinuesWhereItWas(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", smallChart))
	m := e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k)})
	k.Create("same", map[string]any{"message": "first"})
	k.Create("edited", map[string]any{"message": "first"})
	k.Create("deleted", map[string]any{"message": "first"})
	for _, name := range []string{"same", "edited", "deleted"} {
		k.WaitReady(name)
	}
	m.Stop()
	k.Patch("edited", `{"spec":{"message":"second"}}`)
	if err := e.Client.Delete(e.Ctx, k.Named("deleted")); err != nil {
		t.Fatal(err)
	}
	if err := e.Client.Delete(e.Ctx, e.Object("v1", "Service", "same")); err != nil {
		t.Fatal(err)
	}
	m.Start()
	k.WaitReady("edited")
	e.WantHistory("edited", "1:superseded 2:deployed")
	k.WaitGone("deleted")
	e.WantHistory("deleted", "")
	e.WaitObject("v1", "Service", "same", nil)
	e.WantHistory("same", "1:deployed")
}

func TestGuestbookAsUsersSeeIt(t *testing.T) {
	e := harness.New(t)
	e.Kubectl("apply", "--server-side", "-f", filepath.Join(e.Root(), "config", "crd", "bases"))
	e.Kubectl("wait", "--for=condition=Established", "crd/guestbooks.apps.chartgate.dev")
	t.Chdir(e.Root())
	e.StartManager(harness.ManagerOptions{Watches: `
- group: apps.chartgate.dev
  version: v1alpha1
  kind: Guestbook
  chart: helm-charts/guestbook
`})
	e.Kubectl("apply", "-f", "config/samples/apps_v1alpha1_guestbook.yaml")
	e.Kubectl("wait", "--for=condition=Ready", "guestbook/guestbook-sample", "--timeout=60s")

	table := e.Kubectl("get", "gb")
	for _, column := range []string{"PHASE", "READY", "GATES", "REVISION", "AGE", "Deployed", "True"} {
		if !strings.Contains(table, column) {
			t.Errorf("kubectl get gb lacks %q:\n%s", column, table)
		}
	}
	wide := e.Kubectl("get", "guestbooks", "-o", "wide")
	for _, column := range []string{"CHART", "VERSION", "MESSAGE", "guestbook"} {
		if !strings.Contains(wide, column) {
			t.Errorf("kubectl get -o wide lacks %q:\n%s", column, wide)
		}
	}
	if all := e.Kubectl("get", "chartgate", "-A"); !strings.Contains(all, "guestbook-sample") {
		t.Errorf("the category does not list it:\n%s", all)
	}
	if explain := e.Kubectl("explain", "guestbook.spec"); !strings.Contains(explain, "replicaCount") || !strings.Contains(explain, "gates") {
		t.Errorf("kubectl explain is of no use:\n%s", explain)
	}

	e.Kubectl("patch", "gb", "guestbook-sample", "--type=merge", "-p", `{"spec":{"replicaCount":3,"gates":[],"release":{"maxHistory":4}}}`)
	e.Eventually("second revision", func() error {
		if s := e.Statuses("guestbook-sample"); s != "1:superseded 2:deployed" {
			return fmt.Errorf("history is %s", s)
		}
		return nil
	})
	if list := e.Helm("list", "-A"); !strings.Contains(list, "guestbook-sample") || !strings.Contains(list, "deployed") {
		t.Errorf("helm list:\n%s", list)
	}
	if history := e.Helm("history", "guestbook-sample"); strings.Count(history, "\n") != 3 || !strings.Contains(history, "superseded") {
		t.Errorf("helm history:\n%s", history)
	}
	values := e.Helm("get", "values", "guestbook-sample")
	if !strings.Contains(values, "replicaCount: 3") || strings.Contains(values, "gates") || strings.Contains(values, "maxHistory") {
		t.Errorf("helm get values:\n%s", values)
	}
	e.Kubectl("delete", "gb", "guestbook-sample", "--timeout=60s")
	if left := e.Helm("list", "-q"); strings.TrimSpace(left) != "" {
		t.Errorf("helm list after the delete: %s", left)
	}
	e.Eventually("nothing is left", func() error {
		left := strings.TrimSpace(e.Kubectl("get", "deploy,svc,sa,ingress,secret,configmap", "-o", "name", "-l", "app.kubernetes.io/managed-by=Helm"))
		if left != "" {
			return fmt.Errorf("left: %s", left)
		}
		return nil
	})
}

// data returns a key of a ConfigMap.
func data(cm *unstructured.Unstructured, key string) string {
	v, _, _ := unstructured.NestedString(cm.Object, "data", key)
	return v
}

func patch(t *testing.T, e *harness.Env, apiVersion, kind, name, body string) {
	t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	obj.SetNamespace(e.Namespace)
	obj.SetName(name)
	if err := e.Client.Patch(e.Ctx, obj, client.RawPatch("application/merge-patch+json", []byte(body))); err != nil {
		t.Fatal(err)
	}
}
