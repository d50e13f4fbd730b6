// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/harness"
)

// TestChartsWithTheTraitsOfRealOnes releases a chart that has what public charts have.
func TestChartsWithTheTraitsOfRealOnes(t *testing.T) {
	e := sideBySide(t)
	group := harness.Name("traits") + ".test.dev"
	description := strings.Repeat("x", 660*1024)
	chart := e.Chart("traits", map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: traits\nversion: 0.1.0\nkubeVersion: \">=1.30.0-0\"\n",
		"values.yaml": "big: 1000000\nsub: {enabled: true, drop: default}\nsecretName: keep-me\n",
		"crds/small.yaml": fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: smalls.%[1]s}
spec:
  group: %[1]s
  names: {kind: Small, listKind: SmallList, plural: smalls, singular: small}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, group),
		"templates/big-crd.yaml": fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: bigs.%[1]s}
spec:
  group: %[1]s
  names: {kind: Big, listKind: BigList, plural: bigs, singular: big}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, description: %[2]q, x-kubernetes-preserve-unknown-fields: true}}}]
`, group, description),
		"templates/all.yaml": fmt.Sprintf(`{{- $old := lookup "v1" "Secret" .Release.Namespace (printf "%%s-generated" .Release.Name) }}
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}-generated}
data:
  password: {{ if $old }}{{ index $old.data "password" }}{{ else }}{{ randAlphaNum 20 | b64enc }}{{ end }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  big: "{{ .Values.big }}"
  kube: {{ .Capabilities.KubeVersion.Version }}
  own: "{{ .Capabilities.APIVersions.Has "%[1]s/v1/Small" }}"
  apps: "{{ .Capabilities.APIVersions.Has "apps/v1/Deployment" }}"
---
apiVersion: %[1]s/v1
kind: Small
metadata: {name: {{ .Release.Name }}}
spec: {size: {{ .Values.big }}}
`, group),
		"charts/sub/Chart.yaml":  "apiVersion: v2\nname: sub\nversion: 0.1.0\n",
		"charts/sub/values.yaml": "enabled: true\ndrop: default\n",
		"charts/sub/templates/cm.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-sub}
data: {has: "{{ hasKey .Values "drop" }}"}
`,
	})
	k := e.OpenKind(chart)
	m := e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "300ms"}})
	k.Create("one", map[string]any{"sub": map[string]any{"drop": nil}})
	k.WaitReady("one")
	cm := e.Object("v1", "ConfigMap", "one")
	if data(cm, "big") != "1000000" || data(cm, "own") != "true" || data(cm, "apps") != "true" || !strings.HasPrefix(data(cm, "kube"), "v1.") {
		t.Errorf("ConfigMap: %v", cm.Object["data"])
	}
	if got := data(e.Object("v1", "ConfigMap", "one-sub"), "has"); got != "false" {
		t.Errorf("null did not remove the subchart's default: %s", got)
	}
	size, _, _ := unstructured.NestedInt64(e.Object(group+"/v1", "Small", "one").Object, "spec", "size")
	if size != 1000000 {
		t.Errorf("size is %d", size)
	}
	password := e.Object("v1", "Secret", "one-generated").Object["data"].(map[string]any)["password"]
	start := reconciles(t, k)
	e.Eventually("resyncs", func() error {
		if reconciles(t, k) < start+5 {
			return fmt.Errorf("too few")
		}
		return nil
	})
	e.WantHistory("one", "1:deployed")

	// A capability that appears, an upgrade and a restart keep the generated password.
	k.Patch("one", `{"spec":{"big":2000000}}`)
	k.WaitReady("one")
	m.Stop()
	m.Start()
	start = reconciles(t, k)
	e.Eventually("the new operator has looked at it", func() error {
		if reconciles(t, k) < start+3 {
			return fmt.Errorf("too few")
		}
		return nil
	})
	if got := e.Object("v1", "Secret", "one-generated").Object["data"].(map[string]any)["password"]; got != password {
		t.Errorf("the password was generated again")
	}
	e.WantHistory("one", "1:superseded 2:deployed")
	// A CRD that nobody has read may be deleted minutes later: Kubernetes' finalizer gives up while the storage starts.
	e.Kubectl("get", "bigs."+group)
	k.Delete("one")
	if e.Object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "smalls."+group) == nil {
		t.Error("a CRD of crds/ was deleted with a release")
	}
	e.WaitObjectGone("apiextensions.k8s.io/v1", "CustomResourceDefinition", "bigs."+group)
}

func TestReleasesOverAMebibyteAreStored(t *testing.T) {
	e := sideBySide(t)
	k := e.OpenKind(e.Chart("huge", map[string]string{
		"values.yaml": "message: first\n",
		"templates/cm.yaml": `{{- range $i := until 3 }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ $.Release.Name }}-{{ $i }}"}
data: {message: {{ $.Values.message }}, random: {{ randBytes 330000 }}}
{{- end }}
`,
	}))
	m := e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", nil)
	k.WaitReady("one")
	random := data(e.Object("v1", "ConfigMap", "one-0"), "random")
	m.Stop()
	patch(t, e, "v1", "ConfigMap", "one-0", `{"data":{"random":"edited"}}`)
	m.Start()
	e.Eventually("repaired from what is stored", func() error {
		if got := data(e.Object("v1", "ConfigMap", "one-0"), "random"); got != random {
			return fmt.Errorf("random has %d characters", len(got))
		}
		return nil
	})
	k.Patch("one", `{"spec":{"message":"second"}}`)
	if st := k.WaitReady("one"); st.Revision != 2 {
		t.Errorf("revision %d", st.Revision)
	}
	k.Delete("one")
	secrets, err := e.Kube.CoreV1().Secrets(e.Namespace).List(e.Ctx, metav1.ListOptions{})
	if err != nil || len(secrets.Items) > 0 {
		t.Errorf("%d Secrets are left, %v", len(secrets.Items), err)
	}
}

func TestNoSecretEverShows(t *testing.T) {
	const canary = "canary-7f3a"
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("secretive", with(map[string]string{
		"templates/secret.yaml": `apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}}
stringData: {password: {{ .Values.adminPassword | quote }}}
`,
		"values.yaml":           "replicas: 0\nmessage: hello\nbig: 1\nadminPassword: none\nboom: false\nport: 80\n",
		"templates/NOTES.txt":   "The password is {{ .Values.adminPassword }}.\n",
		"templates/fail.yaml":   `{{ if .Values.boom }}{{ fail (printf "cannot use %s" .Values.adminPassword) }}{{ end }}`,
		"templates/broken.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: \"{{ .Release.Name }}-2\"}\nspec: {ports: [{port: {{ .Values.port }}, name: \"{{ .Values.adminPassword }}_\"}]}\n",
	})))
	operator := e.StartProcess(harness.ProcessOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h", "--zap-log-level", "debug"}})
	k.Create("template", map[string]any{"adminPassword": canary, "boom": true})
	k.WaitCondition("template", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRenderFailed)
	k.Create("object", map[string]any{"adminPassword": canary})
	k.WaitCondition("object", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidObject)
	for _, name := range []string{"template", "object"} {
		obj, _ := k.Get(name)
		status, err := json.Marshal(obj.Object["status"])
		if err != nil || strings.Contains(string(status), canary) {
			t.Errorf("status of %s, %v: %s", name, err, status)
		}
	}
	events, err := e.Kube.CoreV1().Events(e.Namespace).List(e.Ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events.Items {
		if strings.Contains(ev.Message, canary) {
			t.Errorf("event %s: %s", ev.Reason, ev.Message)
		}
	}
	logHoldsNo(t, operator, canary)
}

// logHoldsNo checks the log of an operator that logs all it can.
func logHoldsNo(t *testing.T, operator *harness.Process, canary string) {
	t.Helper()
	log := operator.Log(math.MaxInt32)
	if !strings.Contains(log, "Starting Controller") {
		t.Errorf("the operator's log is not there:\n%s", operator.Log(20))
	}
	for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))} {
		for line := range strings.SplitSeq(log, "\n") {
			if strings.Contains(line, form) {
				t.Errorf("the operator's log: %s", line)
			}
		}
	}
}

func TestFailedTriesDoNotGrowTheHistory(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("quota", map[string]string{
		"values.yaml": "count: 1\n",
		"templates/cm.yaml": `{{- range $i := until (int .Values.count) }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ $.Release.Name }}-{{ $i }}"}
data: {count: "{{ $.Values.count }}"}
{{- end }}
`,
	}))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{"count": int64(1), "release": map[string]any{"retries": int64(10)}})
	k.WaitReady("one")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("2")}, // kube-root-ca.crt is one
	}}
	if _, err := e.Kube.CoreV1().ResourceQuotas(e.Namespace).Create(e.Ctx, quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.Eventually("the quota counts", func() error {
		q, err := e.Kube.CoreV1().ResourceQuotas(e.Namespace).Get(e.Ctx, "few", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if used := q.Status.Used["count/configmaps"]; used.Value() != 2 {
			return fmt.Errorf("%v used", used)
		}
		return nil
	})
	k.Patch("one", `{"spec":{"count":2}}`)
	for try := int64(1); try <= 4; try++ {
		st := k.WaitFor("one", "a failed try", func(st v1alpha1.CommonStatus) error {
			if st.Failures != try {
				return fmt.Errorf("%d failures: %s", st.Failures, harness.Conditions(st))
			}
			return nil
		})
		if st.Revision != 2*try+1 || !strings.Contains(st.Message, "exceeded quota") {
			t.Errorf("try %d: revision %d, %s", try, st.Revision, st.Message)
		}
		e.WantHistory("one", fmt.Sprintf("1:superseded %d:failed %d:deployed", 2*try, 2*try+1))
		if e.Object("v1", "ConfigMap", "one-1") != nil || data(e.Object("v1", "ConfigMap", "one-0"), "count") != "1" {
			t.Errorf("try %d was not rolled back", try)
		}
		k.Patch("one", fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, v1alpha1.AnnotationReconcileAt, try))
	}
	if err := e.Kube.CoreV1().ResourceQuotas(e.Namespace).Delete(e.Ctx, "few", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestSuspendHoldsAndOrphanLetsGo(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{"message": "first"})
	k.WaitReady("one")
	k.Patch("one", `{"spec":{"message":"second","release":{"suspend":true,"deletionPolicy":"Orphan"}}}`)
	k.WaitCondition("one", v1alpha1.ConditionReconciling, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
	patch(t, e, "v1", "ConfigMap", "one", `{"data":{"message":"edited"}}`)
	k.Create("two", map[string]any{"message": "first"})
	k.WaitReady("two")
	if got := data(e.Object("v1", "ConfigMap", "one"), "message"); got != "edited" {
		t.Errorf("message is %q while suspended", got)
	}
	k.Patch("one", `{"spec":{"release":{"suspend":false}}}`)
	k.WaitReady("one")
	message(t, e, "one", "second")

	k.Delete("one")
	e.WantHistory("one", "1:superseded 2:deployed")
	cm := e.Object("v1", "ConfigMap", "one")
	if cm == nil || len(cm.GetOwnerReferences()) > 0 || data(cm, "message") != "second" {
		t.Fatalf("what was let go of: %v", cm)
	}
	obj := k.Named("one") // and taken back
	obj.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "true"})
	obj.Object["spec"] = map[string]any{"message": "second"}
	if err := e.Client.Create(e.Ctx, obj); err != nil {
		t.Fatal(err)
	}
	k.WaitReady("one")
	message(t, e, "one", "second")
}
