// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/harness"
)

func TestWhatTheSelectorLeavesOutIsNeverReconciled(t *testing.T) {
	e := sideBySide(t)
	k := e.OpenKind(e.Chart("one", configChart))
	k.Extra = "  selector: {matchLabels: {shard: mine}}\n"
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	obj := k.Named("mine")
	obj.SetLabels(map[string]string{"shard": "mine"})
	obj.Object["spec"] = map[string]any{"message": "right"}
	if err := e.Client.Create(e.Ctx, obj); err != nil {
		t.Fatal(err)
	}
	k.WaitReady("mine")
	k.Patch("mine", `{"metadata":{"labels":{"shard":"theirs"}}}`)
	k.Create("theirs", nil)
	// An event of an object that the resource owns does not get around the selector.
	patch(t, e, "v1", "ConfigMap", "mine", `{"data":{"message":"edited"}}`)
	marker := k.Named("marker")
	marker.SetLabels(map[string]string{"shard": "mine"})
	if err := e.Client.Create(e.Ctx, marker); err != nil {
		t.Fatal(err)
	}
	k.WaitReady("marker")
	if got := data(e.Object("v1", "ConfigMap", "mine"), "message"); got != "edited" {
		t.Errorf("message is %q", got)
	}
	e.WantHistory("theirs", "")
	k.Patch("mine", `{"metadata":{"labels":{"shard":"mine"}}}`)
	message(t, e, "mine", "right")
}

func TestResourcesThatDifferInSubchartsDoNotMeet(t *testing.T) {
	const n = 8
	e := sideBySide(t)
	k := e.OpenKind(e.Chart("parent", map[string]string{
		"Chart.yaml":            "apiVersion: v2\nname: parent\nversion: 0.1.0\ndependencies: [{name: sub, version: 0.1.0, condition: sub.enabled}]\n",
		"values.yaml":           "sub: {enabled: true, size: 1}\n",
		"templates/cm.yaml":     configChart["templates/cm.yaml"],
		"charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 0.1.0\n",
		"charts/sub/templates/cm.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-sub}
data: {message: "{{ .Values.size }}"}
`,
	}))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h", "--max-concurrent-reconciles", "8"}})
	for round := range 2 {
		for i := range n {
			name, spec := fmt.Sprintf("n%d", i), map[string]any{"message": "x", "sub": map[string]any{"enabled": (i+round)%2 == 0, "size": int64(i)}}
			if round == 0 {
				k.Create(name, spec)
				continue
			}
			k.Patch(name, fmt.Sprintf(`{"spec":{"sub":{"enabled":%t}}}`, (i+round)%2 == 0))
		}
		for i := range n {
			name := fmt.Sprintf("n%d", i)
			k.WaitReady(name)
			sub := e.Object("v1", "ConfigMap", name+"-sub")
			if want := (i+round)%2 == 0; want != (sub != nil) {
				t.Errorf("round %d: subchart of %s is there: %t", round, name, sub != nil)
			} else if want && data(sub, "message") != fmt.Sprint(i) {
				t.Errorf("%s has the values of another: %s", name, data(sub, "message"))
			}
		}
	}
}

func TestChartsSeeAPIsThatAppear(t *testing.T) {
	e := sideBySide(t)
	group := harness.Name("late") + ".test.dev"
	k := e.OpenKind(e.Chart("asks", map[string]string{
		"templates/cm.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {message: \"{{ .Capabilities.APIVersions.Has %q }}\"}\n", group+"/v1/Late"),
	}))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("before", nil)
	k.WaitReady("before")
	message(t, e, "before", "false")
	e.InstallCRD(openCRD(group, "Late"))
	e.Eventually("the API is discovered", func() error {
		_, err := e.Kube.Discovery().ServerResourcesForGroupVersion(group + "/v1")
		return err
	})
	k.Create("after", nil)
	k.WaitReady("after")
	message(t, e, "after", "true")
	e.WantHistory("before", "1:deployed")
}

func TestWhatAPersonIsWorkingOnIsLeftAloneForATime(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{"message": "first", "release": map[string]any{"timeout": "6s"}})
	k.WaitReady("one")
	theirs := e.History("one")[0] // as helm upgrade leaves it when it is killed
	theirs.Version, theirs.Info.Status = 2, helmrelease.StatusPendingUpgrade
	for _, system := range []string{"name", "owner", "status", "version", "createdAt", "modifiedAt"} {
		delete(theirs.Labels, system)
	}
	if err := storage.Init(driver.NewSecrets(e.Kube.CoreV1().Secrets(e.Namespace))).Create(theirs); err != nil {
		t.Fatal(err)
	}
	st := k.WaitCondition("one", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReleaseLocked)
	if !strings.Contains(st.Message, "pending-upgrade") || !strings.Contains(st.Message, "left alone until") {
		t.Errorf("message: %s", st.Message)
	}
	e.WantHistory("one", "1:deployed 2:pending-upgrade")
	start := time.Now()
	k.WaitReady("one")
	if time.Since(start) > 40*time.Second {
		t.Errorf("it took %s to go on", time.Since(start))
	}
	waitHistory(e, "one", "1:superseded 2:failed 3:deployed")
}

func TestUninstallEndsWhateverIsInTheWay(t *testing.T) {
	e := sideBySide(t)
	custom := e.OpenKind("")
	hook := harness.Name("guard-")
	// The release's own webhook refuses deletions, and nobody answers for it.
	k := e.GatedKind(e.Chart("guarded", map[string]string{"templates/all.yaml": fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
---
apiVersion: open.test.dev/v1
kind: %s
metadata: {name: {{ .Release.Name }}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %s}
webhooks:
- name: guard.test.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 1
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "{{ .Release.Namespace }}"}}
  clientConfig: {service: {name: none, namespace: default}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [DELETE]}]
`, custom.Kind, hook)}))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", nil)
	k.WaitReady("one")
	k.Delete("one")
	e.WaitObjectGone("v1", "ConfigMap", "one")
	if _, err := e.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(e.Ctx, hook, metav1.GetOptions{}); err == nil {
		t.Error("the webhook is still there")
	}

	// Nor does a kind that is not served any more hold a resource back.
	k.Create("two", nil)
	k.WaitReady("two")
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := e.Client.List(e.Ctx, crds); err != nil {
		t.Fatal(err)
	}
	for i := range crds.Items {
		if crd := &crds.Items[i]; crd.Spec.Names.Kind == custom.Kind {
			if err := e.Client.Delete(e.Ctx, crd); err != nil {
				t.Fatal(err)
			}
			e.Eventually("CRD gone", func() error {
				if err := e.Client.Get(e.Ctx, client.ObjectKeyFromObject(crd), crd); err == nil {
					return fmt.Errorf("still there")
				}
				return nil
			})
		}
	}
	k.Delete("two")
	e.WantHistory("two", "")
	e.WaitObjectGone("v1", "ConfigMap", "two")
}
