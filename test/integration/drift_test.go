// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/harness"
)

func TestDriftIsOnlyReportedWhereAskedFor(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", smallChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{"message": "canary", "replicas": int64(0), "release": map[string]any{"drift": "Report"}})
	k.WaitReady("one")
	k.WaitCondition("one", v1alpha1.ConditionDrifted, metav1.ConditionFalse, v1alpha1.ReasonNoDrift)
	patch(t, e, "v1", "ConfigMap", "one", `{"data":{"message":"edited"}}`)
	if err := e.Client.Delete(e.Ctx, e.Object("v1", "Service", "one")); err != nil {
		t.Fatal(err)
	}
	st := k.WaitFor("one", "drifted", func(st v1alpha1.CommonStatus) error {
		c := harness.Condition(st, v1alpha1.ConditionDrifted)
		if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "data.message") ||
			!strings.Contains(c.Message, "Service "+e.Namespace+"/one is missing") {
			return fmt.Errorf("%s", harness.Conditions(st))
		}
		return nil
	})
	if c := harness.Condition(st, v1alpha1.ConditionDrifted); strings.Contains(c.Message, "canary") || strings.Contains(c.Message, "edited") {
		t.Errorf("the condition shows values: %s", c.Message)
	}
	if got := data(e.Object("v1", "ConfigMap", "one"), "message"); got != "edited" {
		t.Errorf("message is %q: it was put back", got)
	}
	since := time.Now()
	e.Kubectl("annotate", strings.ToLower(k.Kind)+"."+k.Group, "one", v1alpha1.AnnotationReconcileAt+"=1", "-n", e.Namespace)
	k.WaitFor("one", "looked at again", func(st v1alpha1.CommonStatus) error {
		if st.LastHandledReconcileAt != "1" {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	for _, r := range requests(t, e, since) {
		if strings.HasPrefix(r, "get ") {
			t.Errorf("drift that is known is read again: %s", r)
		}
	}
	// Put right by hand, then by the operator.
	patch(t, e, "v1", "ConfigMap", "one", `{"data":{"message":"canary"}}`)
	k.WaitFor("one", "less drift", func(st v1alpha1.CommonStatus) error {
		if c := harness.Condition(st, v1alpha1.ConditionDrifted); c == nil || strings.Contains(c.Message, "data.message") {
			return fmt.Errorf("%s", harness.Conditions(st))
		}
		return nil
	})
	k.Patch("one", `{"spec":{"release":{"drift":"Correct"}}}`)
	e.WaitObject("v1", "Service", "one", nil)
	e.WantHistory("one", "1:deployed")
}

func TestDriftIsIgnoredWhereAskedFor(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "200ms"}})
	k.Create("one", map[string]any{"message": "mine", "release": map[string]any{"drift": "Ignore"}})
	k.WaitReady("one")
	patch(t, e, "v1", "ConfigMap", "one", `{"data":{"message":"theirs"}}`)
	start := reconciles(t, k)
	e.Eventually("some resyncs", func() error {
		if reconciles(t, k) < start+5 {
			return fmt.Errorf("too few")
		}
		return nil
	})
	if got := data(e.Object("v1", "ConfigMap", "one"), "message"); got != "theirs" {
		t.Errorf("message is %q", got)
	}
}

// autoscale sets a Deployment's replicas as an autoscaler does.
func autoscale(e *harness.Env, name string, replicas int32) {
	e.Helper()
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	if _, err := e.Kube.AppsV1().Deployments(e.Namespace).UpdateScale(e.Ctx, name, scale, metav1.UpdateOptions{FieldManager: "autoscaler"}); err != nil {
		e.Error(err)
	}
}

func waitReplicas(e *harness.Env, name string, want int64) {
	e.Helper()
	e.WaitObject("apps/v1", "Deployment", name, func(o *unstructured.Unstructured) error {
		if got, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); got != want {
			return fmt.Errorf("replicas is %d, want %d", got, want)
		}
		return nil
	})
}

// What somebody writes between the look at an object and its repair is looked at again, and not overwritten.
func TestRepairDoesNotOverwriteWhatItHasNotSeen(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", smallChart))
	proxy := e.StartProxy()
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}, Config: proxy.Config()})
	k.Create("one", map[string]any{"replicas": int64(1)})
	k.WaitReady("one")
	var once sync.Once
	seen := make(chan struct{})
	proxy.OnWrite(func(r harness.Request) harness.Action {
		if r.Verb == "patch" && r.Resource == "deployments" && r.Subresource == "" {
			once.Do(func() {
				autoscale(e, "one", 7)
				close(seen)
			})
		}
		return harness.Forward()
	})
	patch(t, e, "apps/v1", "Deployment", "one", `{"spec":{"replicas":5}}`) // a person's edit, which is put back
	select {
	case <-seen:
	case <-time.After(harness.Wait):
		t.Fatal("nothing was repaired")
	}
	e.Never("the autoscaler's number stays", 2*time.Second, func() error {
		if got, _, _ := unstructured.NestedInt64(e.Object("apps/v1", "Deployment", "one").Object, "spec", "replicas"); got != 7 {
			return fmt.Errorf("replicas is %d", got)
		}
		return nil
	})
	k.WaitReady("one")
}

func TestReplicasUnderAnAutoscalerKeepTheirLiveValue(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", smallChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{"message": "first", "replicas": int64(1)})
	k.WaitReady("one")
	autoscale(e, "one", 3)
	// Repair of something else, and upgrades, leave the number alone.
	patch(t, e, "apps/v1", "Deployment", "one", `{"spec":{"paused":true,"template":{"spec":{"containers":[{"name":"app","image":"evil:1"}]}}}}`)
	e.WaitObject("apps/v1", "Deployment", "one", func(o *unstructured.Unstructured) error {
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if image := containers[0].(map[string]any)["image"]; image != "registry.test/app:1" {
			return fmt.Errorf("image is %v", image)
		}
		return nil
	})
	waitReplicas(e, "one", 3)
	patch(t, e, "apps/v1", "Deployment", "one", `{"spec":{"paused":false}}`)
	k.Patch("one", `{"spec":{"message":"second","replicas":2}}`)
	k.WaitReady("one")
	message(t, e, "one", "second")
	waitReplicas(e, "one", 3)
	// A person's kubectl scale is drift.
	e.Kubectl("scale", "deployment/one", "--replicas=4", "-n", e.Namespace)
	waitReplicas(e, "one", 2)
}

var keepChart = map[string]string{
	"values.yaml": "a: one\nb: one\n",
	"templates/cm.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
  annotations: {helm.sh/resource-policy: keep}
data:
  a: {{ .Values.a }}
  b: {{ .Values.b }}
`,
}

func TestKeptObjectsAreLeftAlone(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("keep", keepChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "200ms"}})
	k.Create("one", nil)
	k.WaitReady("one")
	patch(t, e, "v1", "ConfigMap", "one", `{"data":{"a":"mine"}}`)
	start := reconciles(t, k)
	e.Eventually("some resyncs", func() error {
		if reconciles(t, k) < start+5 {
			return fmt.Errorf("too few")
		}
		return nil
	})
	if got := data(e.Object("v1", "ConfigMap", "one"), "a"); got != "mine" {
		t.Errorf("a is %q", got)
	}
	k.Patch("one", `{"spec":{"b":"two"}}`)
	k.WaitReady("one")
	cm := e.WaitObject("v1", "ConfigMap", "one", func(o *unstructured.Unstructured) error {
		if got := data(o, "b"); got != "two" {
			return fmt.Errorf("b is %q", got)
		}
		return nil
	})
	if got := data(cm, "a"); got != "mine" {
		t.Errorf("a is %q after an upgrade that does not change it", got)
	}
	k.Delete("one")
	e.WantHistory("one", "")
	if cm := e.Object("v1", "ConfigMap", "one"); cm == nil || len(cm.GetOwnerReferences()) > 0 {
		t.Errorf("what was to be kept: %v", cm)
	}
}

// wideChart has objects that no owner reference reaches, and an object of a custom kind.
func wideChart(other, kind string) map[string]string {
	return map[string]string{
		"templates/all.yaml": fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: {{ .Release.Namespace }}-{{ .Release.Name }}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}, namespace: %s}
data: {message: hello}
---
apiVersion: open.test.dev/v1
kind: %s
metadata: {name: {{ .Release.Name }}-custom}
spec: {size: 3, list: [{a: 1}]}
`, other, kind),
	}
}

func TestObjectsOutOfReachOfOwnerReferencesAreRepairedAndRemoved(t *testing.T) {
	e := sideBySide(t)
	other := e.Cluster.Namespace(t)
	custom := e.OpenKind("")
	k := e.GatedKind(e.Chart("wide", wideChart(other, custom.Kind)))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", nil)
	k.WaitReady("one")
	role := e.Namespace + "-one"
	patch(t, e, "rbac.authorization.k8s.io/v1", "ClusterRole", role, `{"rules":[]}`)
	e.WaitObject("rbac.authorization.k8s.io/v1", "ClusterRole", role, func(o *unstructured.Unstructured) error {
		if rules, _, _ := unstructured.NestedSlice(o.Object, "rules"); len(rules) != 1 {
			return fmt.Errorf("%d rules", len(rules))
		}
		return nil
	})
	if err := e.Kube.CoreV1().ConfigMaps(other).Delete(e.Ctx, "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.Eventually("the ConfigMap of the other namespace", func() error {
		_, err := e.Kube.CoreV1().ConfigMaps(other).Get(e.Ctx, "one", metav1.GetOptions{})
		return err
	})
	patch(t, e, "open.test.dev/v1", custom.Kind, "one-custom", `{"spec":{"size":5,"list":[]}}`)
	e.WaitObject("open.test.dev/v1", custom.Kind, "one-custom", func(o *unstructured.Unstructured) error {
		size, _, _ := unstructured.NestedInt64(o.Object, "spec", "size")
		list, _, _ := unstructured.NestedSlice(o.Object, "spec", "list")
		if size != 3 || len(list) != 1 {
			return fmt.Errorf("size %d, list %v", size, list)
		}
		return nil
	})
	e.WantHistory("one", "1:deployed")
	k.Delete("one")
	e.WaitObjectGone("rbac.authorization.k8s.io/v1", "ClusterRole", role)
	e.Eventually("the ConfigMap of the other namespace gone", func() error {
		if _, err := e.Kube.CoreV1().ConfigMaps(other).Get(e.Ctx, "one", metav1.GetOptions{}); err == nil {
			return fmt.Errorf("still there")
		}
		return nil
	})
}

func TestDeletingTheNamespaceLeavesNothingBehind(t *testing.T) {
	e := sideBySide(t)
	other := e.Cluster.Namespace(t)
	custom := e.OpenKind("")
	k := e.GatedKind(e.Chart("wide", wideChart(other, custom.Kind)))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", nil)
	k.WaitReady("one")
	if err := e.Kube.CoreV1().Namespaces().Delete(e.Ctx, e.Namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	k.WaitGone("one")
	e.WaitObjectGone("rbac.authorization.k8s.io/v1", "ClusterRole", e.Namespace+"-one")
}

func TestForegroundDeletionEndsClean(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", smallChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{"replicas": int64(0)})
	k.WaitReady("one")
	if err := e.Client.Delete(e.Ctx, k.Named("one"), client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	k.WaitGone("one")
	e.WantHistory("one", "")
	e.WaitObjectGone("apps/v1", "Deployment", "one")
}

func TestWhatOthersFillInStays(t *testing.T) {
	e := sideBySide(t)
	name := harness.Name("hook-")
	k := e.GatedKind(e.Chart("hooks", map[string]string{
		"values.yaml": "size: 1\n",
		"templates/all.yaml": fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %s}
webhooks:
- name: a.test.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  timeoutSeconds: {{ .Values.size }}
  clientConfig: {service: {name: x, namespace: default}, caBundle: ""}
  rules: [{apiGroups: [none.test.dev], apiVersions: [v1], resources: [nones], operations: [CREATE]}]
---
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}-tls}
type: kubernetes.io/tls
data: {tls.crt: "", tls.key: ""}
`, name),
	}))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", nil)
	k.WaitReady("one")
	webhooks := e.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	webhook, err := webhooks.Get(e.Ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	webhook.Webhooks[0].ClientConfig.CABundle = e.Cluster.Config().CAData
	if _, err := webhooks.Update(e.Ctx, webhook, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Kube.CoreV1().Secrets(e.Namespace).Patch(e.Ctx, "one-tls", types.MergePatchType, []byte(`{"data":{"tls.crt":"QQ==","tls.key":"QQ=="}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	// An upgrade, and the repair of another field, leave both.
	k.Patch("one", `{"spec":{"size":2}}`)
	k.WaitReady("one")
	patch(t, e, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", name, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`)
	e.Eventually("the label is back", func() error {
		webhook, err := webhooks.Get(e.Ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if webhook.Labels["app.kubernetes.io/managed-by"] != "Helm" {
			return fmt.Errorf("labels %v", webhook.Labels)
		}
		if *webhook.Webhooks[0].TimeoutSeconds != 2 || len(webhook.Webhooks[0].ClientConfig.CABundle) == 0 {
			t.Errorf("the webhook lost its caBundle, or was not upgraded: %d", *webhook.Webhooks[0].TimeoutSeconds)
		}
		return nil
	})
	secret, err := e.Kube.CoreV1().Secrets(e.Namespace).Get(e.Ctx, "one-tls", metav1.GetOptions{})
	if err != nil || string(secret.Data["tls.crt"]) != "A" {
		t.Errorf("the Secret was emptied: %v", err)
	}
	k.Delete("one")
}
