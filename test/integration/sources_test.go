// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/chartserver"
	"github.com/chartgate/chartgate/test/harness"
)

// chosen is an environment with an operator for the kinds whose charts are chosen at run time.
type chosen struct {
	*harness.Env
	apps, services *harness.Kind
	manager        *harness.Manager
}

const chosenWatches = `- group: apps.chartgate.dev
  version: v1alpha1
  kind: HelmApp
  source: Repository
  valuesPath: spec.values
- group: apps.chartgate.dev
  version: v1alpha1
  kind: Microservice
  source: Inline
`

// serveChosen starts the operator, with further flags, in the test's namespace.
func serveChosen(t *testing.T, args ...string) *chosen {
	t.Helper()
	c := chosenKinds(sideBySide(t))
	bind(c.Env, c.Namespace, "default", "edit") // they act as their namespace's ServiceAccount
	c.manager = c.StartManager(harness.ManagerOptions{Watches: chosenWatches, Namespaces: []string{c.Namespace}, Args: slices.Concat(loopbackRepositories, onlyWatches, args)})
	return c
}

// loopbackRepositories are flags that allow repositories on this machine.
var loopbackRepositories = []string{"--allowed-repository-networks", "127.0.0.0/8,::1/128"}

// chosenArgs are flags of an operator that polls nothing and uses charts that are served on this machine.
var chosenArgs = slices.Concat(loopbackRepositories, onlyWatches)

// chosenKinds installs the kinds whose charts are chosen at run time.
func chosenKinds(e *harness.Env) *chosen {
	e.Helper()
	for _, plural := range []string{"helmapps", "microservices"} {
		e.Kubectl("apply", "--server-side", "-f", filepath.Join(e.Root(), "config/crd/bases/apps.chartgate.dev_"+plural+".yaml"))
		e.Kubectl("wait", "--for=condition=Established", "crd/"+plural+".apps.chartgate.dev")
	}
	return &chosen{
		Env:      e,
		apps:     (&harness.Kind{GroupVersionKind: v1alpha1.GroupVersion.WithKind(v1alpha1.KindHelmApp)}).In(e),
		services: (&harness.Kind{GroupVersionKind: v1alpha1.GroupVersion.WithKind(v1alpha1.KindMicroservice)}).In(e),
	}
}

// secret makes a Secret, or puts other data into it.
func (c *chosen) secret(name string, data map[string][]byte) {
	c.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}, Data: data}
	err := c.Client.Create(c.Ctx, s)
	if err != nil {
		err = c.Client.Update(c.Ctx, s)
	}
	if err != nil {
		c.Fatal(err)
	}
}

// shopFiles is a chart of one ConfigMap, which tells the chart's version.
var shopFiles = map[string]string{
	"values.yaml":            "message: hello\n",
	"templates/message.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  message: {{ .Values.message | quote }}\n  version: {{ .Chart.Version }}\n",
}

// publish puts versions of the shop into the repository.
func publish(t testing.TB, charts *chartserver.Repository, versions ...string) {
	t.Helper()
	for _, v := range versions {
		charts.File(t, "shop-"+v+".tgz", chartserver.PackFiles(t, "shop", v, shopFiles))
	}
	charts.Index(t)
}

// shop is a HelmApp's spec.chart.
func shop(repository, version string) map[string]any {
	return map[string]any{
		"repository": repository, "name": "shop", "version": version, "updateInterval": "10s",
		"secretRef": map[string]any{"name": "charts"},
	}
}

func resolvedVersion(k *harness.Kind, name string) string {
	obj, _ := k.Get(name)
	version, _, _ := unstructured.NestedString(obj.Object, "status", "resolved", "version")
	return version
}

func wantMessage(e *harness.Env, name, message, version string) {
	e.Helper()
	e.WaitObject("v1", "ConfigMap", name, func(obj *unstructured.Unstructured) error {
		data, _, _ := unstructured.NestedStringMap(obj.Object, "data")
		if data["message"] != message || data["version"] != version {
			return fmt.Errorf("holds %v, want %q of version %s", data, message, version)
		}
		return nil
	})
}

func TestHelmAppFollowsARangeGated(t *testing.T) {
	c := serveChosen(t)
	charts := chartserver.NewRepository(t)
	publish(t, charts, "1.0.0", "2.0.0")
	c.secret("charts", chartserver.CASecret(charts.Server, nil))
	c.apps.Create("shop", map[string]any{
		"chart": shop(charts.URL, "^1.0"), "values": map[string]any{"message": "hi"},
		"gates": []any{map[string]any{"name": "go-ahead", "type": "ConfigMapExists"}},
	})
	c.apps.WaitCondition("shop", v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonWaitingForGates)
	if st := c.apps.WaitFor("shop", "is held", phase(v1alpha1.PhasePending)); c.Object("v1", "ConfigMap", "shop") != nil {
		t.Errorf("installed though its gate is closed: %s", harness.Conditions(st))
	}
	if got := resolvedVersion(c.apps, "shop"); got != "1.0.0" {
		t.Errorf("status.resolved has version %q", got)
	}
	createConfigMap(c.Env, "go-ahead", nil)
	st := c.apps.WaitReady("shop")
	if st.Phase != v1alpha1.PhaseDeployed || st.LastDeployedVersion != "1.0.0" || st.Chart != "shop" || st.ReleaseName != "shop" || st.Revision != 1 {
		t.Errorf("status: %+v", st)
	}
	wantMessage(c.Env, "shop", "hi", "1.0.0")

	deleteConfigMap(c.Env, "go-ahead")
	publish(t, charts, "1.1.0")
	c.apps.WaitFor("shop", "is held at the next version", func(st v1alpha1.CommonStatus) error {
		if st.Pending == nil || resolvedVersion(c.apps, "shop") != "1.1.0" {
			return fmt.Errorf("pending %v, resolved %s: %s", st.Pending, resolvedVersion(c.apps, "shop"), harness.Conditions(st))
		}
		return nil
	})
	wantMessage(c.Env, "shop", "hi", "1.0.0")
	c.WantHistory("shop", "1:deployed")
	createConfigMap(c.Env, "go-ahead", nil)
	wantMessage(c.Env, "shop", "hi", "1.1.0")
	if st := c.apps.WaitReady("shop"); st.LastDeployedVersion != "1.1.0" || st.Revision != 2 {
		t.Errorf("status: %+v", st)
	}
	if out := c.Helm("history", "shop"); !strings.Contains(out, "shop-1.0.0") || !strings.Contains(out, "shop-1.1.0") {
		t.Errorf("helm history says:\n%s", out)
	}
	c.apps.Delete("shop")
	c.WaitObjectGone("v1", "ConfigMap", "shop")
}

func phase(want v1alpha1.Phase) func(v1alpha1.CommonStatus) error {
	return func(st v1alpha1.CommonStatus) error {
		if st.Phase != want {
			return fmt.Errorf("phase %s: %s", st.Phase, harness.Conditions(st))
		}
		return nil
	}
}

func TestHelmAppFromAPrivateRegistry(t *testing.T) {
	c := serveChosen(t)
	reg := chartserver.NewRegistry(t)
	reg.PushArchive(t, "shop", "1.0.0", chartserver.PackFiles(t, "shop", "1.0.0", shopFiles))
	reg.Set(func() { reg.Password = "s3cret-word" })
	c.apps.Create("shop", map[string]any{"chart": shop("oci://"+reg.Host()+"/charts", "1.0.0")})
	st := c.apps.WaitCondition("shop", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRepositorySecretInvalid)
	if st.Phase != v1alpha1.PhasePending || !strings.Contains(st.Message, "Secret charts is missing in namespace "+c.Namespace) {
		t.Errorf("phase %s, message %q", st.Phase, st.Message)
	}
	c.secret("charts", chartserver.CASecret(reg.Server, map[string]string{"username": "ann", "password": "wrong-word"}))
	c.apps.WaitCondition("shop", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonAuthenticationFailed)
	c.secret("charts", chartserver.CASecret(reg.Server, map[string]string{"username": "ann", "password": "s3cret-word"}))
	c.apps.WaitReady("shop")
	wantMessage(c.Env, "shop", "hello", "1.0.0")
	obj, _ := c.apps.Get("shop")
	if digest, _, _ := unstructured.NestedString(obj.Object, "status", "resolved", "digest"); len(digest) != 64 {
		t.Errorf("status.resolved has digest %q", digest)
	}
	events := c.Kubectl("get", "events", "-o", "yaml")
	if !strings.Contains(events, "reason: "+v1alpha1.ReasonAuthenticationFailed) {
		t.Error("no event tells that the registry refused the credentials")
	}
	for what, text := range map[string]string{"the resource": fmt.Sprint(obj.Object), "events": events} {
		if strings.Contains(text, "s3cret-word") || strings.Contains(text, "wrong-word") {
			t.Errorf("a password shows in %s", what)
		}
	}
}

func TestHelmAppRefusesAnotherArchive(t *testing.T) {
	c := serveChosen(t)
	charts := chartserver.NewRepository(t)
	publish(t, charts, "1.0.0")
	other := maps.Clone(shopFiles)
	other["values.yaml"] = "message: tampered\n"
	charts.File(t, "shop-1.0.0.tgz", chartserver.PackFiles(t, "shop", "1.0.0", other))
	c.secret("charts", chartserver.CASecret(charts.Server, nil))
	c.apps.Create("shop", map[string]any{"chart": shop(charts.URL, "1.0.0")})
	st := c.apps.WaitCondition("shop", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonDigestMismatch)
	if st.Phase != v1alpha1.PhasePending || len(c.History("shop")) != 0 || c.Object("v1", "ConfigMap", "shop") != nil {
		t.Errorf("phase %s, history %q", st.Phase, c.Statuses("shop"))
	}
}

func TestHelmAppIsKeptUpWhileItsRepositoryIsDown(t *testing.T) {
	c := serveChosen(t)
	charts := chartserver.NewRepository(t)
	publish(t, charts, "1.0.0")
	c.secret("charts", chartserver.CASecret(charts.Server, nil))
	c.apps.Create("shop", map[string]any{"chart": shop(charts.URL, "1.x")})
	c.apps.WaitReady("shop")
	down(charts)
	c.apps.WaitCondition("shop", v1alpha1.ConditionChartStale, metav1.ConditionTrue, v1alpha1.ReasonRepositoryUnreachable)
	deleteConfigMap(c.Env, "shop")
	wantMessage(c.Env, "shop", "hello", "1.0.0")
	c.apps.WaitReady("shop") // what was found last is what is released

	// A new operator has nothing in its cache: it can't tell what is to be released, and keeps what is.
	c.manager.Stop()
	deleteConfigMap(c.Env, "shop")
	c.manager.Start()
	st := c.apps.WaitCondition("shop", v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonRepositoryUnreachable)
	if st.Phase != v1alpha1.PhaseDeployed || st.Revision != 1 || st.LastDeployedVersion != "1.0.0" || !strings.Contains(st.Message, "503") {
		t.Errorf("status: %+v", st)
	}
	wantMessage(c.Env, "shop", "hello", "1.0.0")
	deleteConfigMap(c.Env, "shop")
	wantMessage(c.Env, "shop", "hello", "1.0.0")
	c.WantHistory("shop", "1:deployed")

	charts.Answer(nil)
	c.Kubectl("annotate", "helmapp", "shop", "chartgate.dev/reconcile-at=now")
	st = c.apps.WaitReady("shop")
	if harness.Condition(st, v1alpha1.ConditionChartStale) != nil {
		t.Errorf("conditions: %s", harness.Conditions(st))
	}
	c.WantHistory("shop", "1:deployed")

	// An uninstall asks no repository.
	down(charts)
	c.apps.Delete("shop")
	c.WaitObjectGone("v1", "ConfigMap", "shop")
}

// down makes the repository answer nothing but that it is down.
func down(charts *chartserver.Repository) {
	charts.Answer(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusServiceUnavailable) })
}

func TestHelmAppAdoptsWhatItHasComparedAlone(t *testing.T) {
	c := serveChosen(t)
	charts := chartserver.NewRepository(t)
	publish(t, charts, "1.0.0")
	files := maps.Clone(shopFiles)
	files["Chart.yaml"] = "apiVersion: v2\nname: shop\nversion: 1.0.0\n"
	c.Helm("install", "shop", c.Chart("shop", files))
	app := c.apps.Named("shop")
	app.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "true"})
	app.Object["spec"] = map[string]any{"chart": shop(charts.URL, "1.0.0")}
	if err := c.Client.Create(c.Ctx, app); err != nil {
		t.Fatal(err)
	}
	c.apps.WaitCondition("shop", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRepositorySecretInvalid)
	if owner := c.History("shop")[0].Labels[v1alpha1.LabelOwner]; owner != "" {
		t.Errorf("the release was given to %s without a look at the chart", owner)
	}
	c.secret("charts", chartserver.CASecret(charts.Server, nil))
	c.apps.WaitReady("shop")
	c.WantHistory("shop", "1:deployed")
	if owner := c.History("shop")[0].Labels[v1alpha1.LabelOwner]; owner != "helmapp.apps.chartgate.dev" {
		t.Errorf("the release is owned by %q", owner)
	}
}

func TestIdleChosenChartsMakeNoRequests(t *testing.T) {
	c := serveChosen(t, "--reconcile-period", "1s")
	charts := chartserver.NewRepository(t)
	publish(t, charts, "1.0.0")
	c.secret("charts", chartserver.CASecret(charts.Server, nil))
	createSecret(c.Env, "values", map[string]string{"values.yaml": "message: from a Secret\n"})
	createConfigMap(c.Env, "go-ahead", nil)
	from := map[string]any{"valuesFrom": []any{valuesRef("Secret", "values", "values.yaml")}}
	spec := shop(charts.URL, "1.x")
	spec["updateInterval"] = "1h"
	c.apps.Create("shop", map[string]any{
		"chart": spec, "release": from,
		"gates": []any{map[string]any{"name": "go-ahead", "type": "ConfigMapExists"}},
	})
	c.services.Create("orders", map[string]any{
		"release":   from,
		"resources": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: orders}\ndata: {message: {{ .Values.message }}}\n",
	})
	c.apps.WaitReady("shop")
	c.services.WaitReady("orders")
	wantMessage(c.Env, "shop", "from a Secret", "1.0.0")
	resync := func() {
		for _, k := range []*harness.Kind{c.apps, c.services} {
			start := reconciles(t, k)
			c.Eventually("reconciles of "+k.Kind, func() error {
				if got := reconciles(t, k); got < start+3 {
					return fmt.Errorf("%d since %d", got, start)
				}
				return nil
			})
		}
	}
	resync()
	charts.Requests.Take()
	since := time.Now()
	resync()
	if got := requests(t, c.Env, since); len(got) > 0 {
		t.Errorf("%d requests of idle resources:\n%s", len(got), strings.Join(got, "\n"))
	}
	charts.Requests.Expect(t, "while nothing changes")
}
