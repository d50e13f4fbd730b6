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

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/harness"
)

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// Without the right to watch, and without the right to list what is released, objects
// are read at each reconcile: slower, but neither hung nor in a loop.
func TestFewRightsSuffice(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("few", map[string]string{
		"values.yaml":       configChart["values.yaml"],
		"templates/cm.yaml": strings.ReplaceAll(configChart["templates/cm.yaml"], "  random: {{ randAlphaNum 16 }}\n", ""),
		"templates/hook.yaml": `apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-hook
  annotations: {helm.sh/hook: post-install}
spec:
  suspend: true
  template: {spec: {restartPolicy: Never, containers: [{name: app, image: "registry.test/app:1"}]}}
`,
	}))
	ten := startForTenants(e, []string{"--reconcile-period", "2s"}, k)
	user := account(e, "poor")
	role(e, "poor",
		rule("", "secrets", "get", "list", "create", "update", "patch", "delete"),
		rule("", "configmaps", "get", "create", "patch", "delete"),
		rule("batch", "jobs", "get", "create", "delete"))
	k.Create("one", serviceAccount("poor"))
	completeJob(t, e, "one-hook")
	k.WaitReady("one")
	patch(t, e, "v1", "ConfigMap", "one", `{"data":{"message":"edited"}}`)
	message(t, e, "one", "hello")
	k.Patch("one", `{"spec":{"message":"second"}}`)
	k.WaitReady("one")
	e.WantHistory("one", "1:superseded 2:deployed")

	since := time.Now()
	start := reconciles(t, k)
	e.Eventually("reconciles", func() error {
		if got := reconciles(t, k); got < start+4 {
			return fmt.Errorf("%d since %d", got, start)
		}
		return nil
	})
	asked := len(ten.requests(since, controlplane.ByUser(user), controlplane.ByNamespace(e.Namespace)))
	if done := reconciles(t, k) - start; asked == 0 || asked > 5*done+5 {
		t.Errorf("%d requests of %d reconciles", asked, done)
	}
	k.Delete("one")
	e.WaitObjectGone("v1", "ConfigMap", "one")
	e.WantHistory("one", "")
}

// A ServiceAccount that lost its rights holds up nothing but its own resource, and that
// for no longer than the resource's timeout when it is deleted.
func TestReleaseIsGivenUpWhenNobodyMayRemoveIt(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", smallChart))
	ten := startForTenants(e, []string{"--reconcile-period", "1h"}, k)
	account(e, "robot")
	binding := bind(e, e.Namespace, "robot", "edit")
	spec := serviceAccount("robot")
	spec["release"].(map[string]any)["timeout"] = "15s"
	spec["replicas"] = int64(0)
	k.Create("one", spec)
	k.WaitReady("one")
	if err := e.Client.Delete(e.Ctx, binding); err != nil {
		t.Fatal(err)
	}
	patch(t, e, "v1", "ConfigMap", "one", `{"data":{"message":"edited"}}`)
	st := k.WaitCondition("one", v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonForbidden)
	if !strings.Contains(st.Message, "robot may not get configmaps in namespace "+e.Namespace+"; grant it: kubectl create role robot-configmaps") {
		t.Errorf("message: %s", st.Message)
	}

	deleted := time.Now()
	if err := e.Client.Delete(e.Ctx, k.Named("one")); err != nil {
		t.Fatal(err)
	}
	e.Eventually("it says why it stays", func() error {
		obj, st := k.Get("one")
		if st.Phase != v1alpha1.PhaseUninstalling || !strings.Contains(st.Message, "robot may not ") {
			return fmt.Errorf("%v", obj.Object["status"])
		}
		return nil
	})
	k.WaitGone("one")
	if took := time.Since(deleted); took < 14*time.Second {
		t.Errorf("it was given up after %s", took)
	}
	e.Eventually("an event", func() error {
		if countEvents(e, v1alpha1.EventReleaseOrphaned, "release one could not be uninstalled and stays in namespace "+e.Namespace) != 1 {
			return errors.New("there is none")
		}
		return nil
	})
	for _, what := range []string{"ConfigMap " + e.Namespace + "/one", "Deployment " + e.Namespace + "/one", "Service " + e.Namespace + "/one"} {
		if countEvents(e, v1alpha1.EventReleaseOrphaned, what) != 1 {
			t.Errorf("the event does not name %s", what)
		}
	}
	e.WantHistory("one", "1:deployed")
	ten.wantOwnRequests(k)
}

// After a restart nobody remembers what was released: the operator reads it in what is stored, for names alone.
// The cluster's garbage collector takes what the resource owned, and nothing else.
func TestWhatStaysIsNamedAfterARestart(t *testing.T) {
	e := sideBySide(t)
	files := maps.Clone(configChart)
	files["templates/kept.yaml"] = `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-kept
  annotations: {helm.sh/resource-policy: keep}
`
	k := e.GatedKind(e.Chart("one", files))
	user := userWith(e, operatorRules(e, k))
	cfg, err := e.Cluster.User(user)
	if err != nil {
		t.Fatal(err)
	}
	m := e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches, Config: cfg})
	account(e, "robot")
	binding := bind(e, e.Namespace, "robot", "edit")
	spec := serviceAccount("robot")
	spec["release"].(map[string]any)["timeout"] = "1s"
	k.Create("one", spec)
	k.WaitReady("one")
	m.Stop()
	e.Kubectl("delete", "serviceaccount", "robot")
	if err := e.Client.Delete(e.Ctx, binding); err != nil {
		t.Fatal(err)
	}
	if err := e.Client.Delete(e.Ctx, k.Named("one")); err != nil {
		t.Fatal(err)
	}
	m.Start()
	k.WaitGone("one")
	e.Eventually("an event", func() error {
		if countEvents(e, v1alpha1.EventReleaseOrphaned, "with ConfigMap "+e.Namespace+"/one, ConfigMap "+e.Namespace+"/one-kept (Kubernetes removes those that have the resource as owner): system:serviceaccount:"+e.Namespace+":robot may not list secrets") != 1 {
			return errors.New("there is none")
		}
		return nil
	})
	if countEvents(e, v1alpha1.EventReleaseOrphaned, "ServiceAccount robot does not exist") != 1 {
		t.Error("the event doesn't say that the ServiceAccount is gone")
	}
	e.WaitObjectGone("v1", "ConfigMap", "one")
	if e.Object("v1", "ConfigMap", "one-kept") == nil {
		t.Error("what the chart keeps is gone")
	}
	e.WantHistory("one", "1:deployed")
}

// A namespace that is deleted takes roles and resources in any order, and nothing in it is waited for.
func TestNamespaceGoesWithItsTenants(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	startForTenants(e, onlyWatches, k)
	ns := harness.Name("going-")
	e.Kubectl("create", "namespace", ns)
	there := in(e, ns)
	account(there, "robot")
	binding := bind(there, ns, "robot", "edit")
	k.In(there).Create("one", serviceAccount("robot"))
	k.In(there).WaitReady("one")
	if err := e.Client.Delete(e.Ctx, binding); err != nil { // it goes first
		t.Fatal(err)
	}
	e.Kubectl("delete", "namespace", ns, "--timeout=2m")
	if e.Object("v1", "Namespace", ns) != nil {
		t.Errorf("namespace %s stays", ns)
	}
}

// An operator without the right to act as others says which rule it lacks.
func TestImpersonationItselfMayBeMissing(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	files := operatorRules(e, k)
	for i := range files {
		files[i].Content = []byte(strings.ReplaceAll(string(files[i].Content), "verbs: [get, impersonate]", "verbs: [get]"))
	}
	user := userWith(e, files)
	startAs(e, user, harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	account(e, "robot")
	bind(e, e.Namespace, "robot", "edit")
	k.Create("one", serviceAccount("robot"))
	st := k.WaitCondition("one", v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonForbidden)
	for _, want := range []string{"the operator (" + user + ") may not act as ServiceAccounts of namespace " + e.Namespace, `add to its role: {apiGroups: [""], resources: [serviceaccounts], verbs: [impersonate]}`} {
		if !strings.Contains(st.Message, want) {
			t.Errorf("the message lacks %q: %s", want, st.Message)
		}
	}

	// Of its own rights it names the rule, too: those for a chart's objects are none that it has.
	k2 := e.GatedKind(e.Chart("service", map[string]string{"templates/s.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: \"{{ .Release.Name }}\"}\nspec: {ports: [{port: 80}]}\n"}))
	other := userWith(e, operatorRules(e, k2))
	startAs(e, other, harness.ManagerOptions{Watches: harness.Watches(k2), Args: onlyWatches})
	k2.Create("own", nil)
	st = k2.WaitCondition("own", v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonForbidden)
	want := other + ` may not create services in namespace ` + e.Namespace + `; add to the operator's role: {apiGroups: [""], resources: [services], verbs: [get, list, watch, create, update, patch, delete]}`
	if !strings.Contains(st.Message, want) {
		t.Errorf("the message lacks %q: %s", want, st.Message)
	}
}
