// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/chartserver"
	"github.com/chartgate/chartgate/test/harness"
)

// in returns the environment with another namespace.
func in(e *harness.Env, namespace string) *harness.Env {
	other := *e
	other.Namespace = namespace
	return &other
}

// shops serves the shop's versions, with its CA in the namespaces.
func shops(t *testing.T, namespaces []string, versions ...string) *chartserver.Repository {
	t.Helper()
	charts := chartserver.NewRepository(t)
	publish(t, charts, versions...)
	for _, ns := range namespaces {
		createSecretIn(t, ns, charts)
	}
	return charts
}

func createSecretIn(t *testing.T, namespace string, charts *chartserver.Repository) {
	t.Helper()
	e := harness.New(t)
	(&chosen{Env: in(e, namespace)}).secret("charts", chartserver.CASecret(charts.Server, nil))
}

// An operator with rights in the HelmApp's namespace alone releases where the HelmApp's ServiceAccount may.
func TestHelmAppGoesWhereItsServiceAccountMay(t *testing.T) {
	e := sideBySide(t)
	target := harness.New(t).Namespace
	c := chosenKinds(e)
	user := harness.Name("operator-")
	for _, f := range operatorRules(e, c.apps, c.services) {
		var r rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(f.Content, &r); err != nil {
			t.Fatal(err)
		}
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: r.Name}, Rules: r.Rules}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: r.Name}, Subjects: []rbacv1.Subject{{Kind: "User", Name: user}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: r.Name},
		}
		for _, obj := range []client.Object{role, binding} {
			if err := e.Client.Create(e.Ctx, obj); err != nil {
				t.Fatal(err)
			}
		}
	}
	account(e, "robot")
	bind(e, e.Namespace, "robot", "edit")
	bind(e, target, "robot", "edit")
	charts := shops(t, []string{e.Namespace}, "1.0.0")
	ten := startAs(e, user, harness.ManagerOptions{
		Watches: chosenWatches, Namespaces: []string{e.Namespace}, Args: append([]string{"--reconcile-period", "1h"}, chosenArgs...),
	})

	spec := serviceAccount("robot")
	spec["chart"], spec["targetNamespace"] = shop(charts.URL, "1.0.0"), target
	c.apps.Create("shop", spec)
	st := c.apps.WaitReady("shop")
	if st.ReleaseNamespace != target || st.ReleaseName != "shop" {
		t.Errorf("release %s/%s", st.ReleaseNamespace, st.ReleaseName)
	}
	there := in(e, target)
	there.WantHistory("shop", "1:deployed")
	e.WantHistory("shop", "")
	cm := there.Object("v1", "ConfigMap", "shop")
	if cm == nil || len(cm.GetOwnerReferences()) > 0 || !strings.Contains(fmt.Sprint(cm.GetAnnotations()), e.Namespace+"/shop") {
		t.Fatalf("the object: %+v", cm)
	}
	if e.Object("v1", "ConfigMap", "shop") != nil {
		t.Error("an object is in the HelmApp's own namespace")
	}
	patch(t, there, "v1", "ConfigMap", "shop", `{"data":{"message":"edited"}}`)
	message(t, there, "shop", "hello") // by a watch: nothing is looked at before an hour has gone by

	// Its status can't be made to point elsewhere, nor its spec.
	obj, _ := c.apps.Get("shop")
	if err := e.Client.Status().Patch(e.Ctx, obj, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"releaseNamespace":"kube-system"}}`))); err != nil {
		t.Fatal(err)
	}
	err := e.Client.Patch(e.Ctx, obj, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"targetNamespace":"`+e.Namespace+`"}}`)))
	if err == nil || !strings.Contains(err.Error(), "targetNamespace can't be changed") {
		t.Errorf("another target: %v", err)
	}
	c.apps.Patch("shop", `{"spec":{"values":{"message":"second"}}}`)
	message(t, there, "shop", "second")
	c.apps.WaitReady("shop")
	there.WantHistory("shop", "1:superseded 2:deployed")
	c.apps.Delete("shop")
	there.WaitObjectGone("v1", "ConfigMap", "shop")
	there.WantHistory("shop", "")
	ten.wantOwnRequests(c.apps, c.services)
	for _, r := range ten.requests(ten.since, forbidden) {
		t.Errorf("forbidden: %s %s as %s", r.Verb, r.RequestURI, actor(r))
	}
}

func TestTwoHelmAppsOfOneNameShareATargetNamespace(t *testing.T) {
	e := sideBySide(t)
	other, target := in(e, harness.New(t).Namespace), harness.New(t).Namespace
	c := chosenKinds(e)
	charts := shops(t, []string{e.Namespace, other.Namespace}, "1.0.0")
	for _, from := range []*harness.Env{e, other} {
		bind(from, from.Namespace, "default", "edit")
		bind(from, target, "default", "edit")
	}
	e.StartManager(harness.ManagerOptions{Watches: chosenWatches, Namespaces: []string{e.Namespace, other.Namespace}, Args: chosenArgs})
	spec := map[string]any{"chart": shop(charts.URL, "1.0.0"), "targetNamespace": target}
	kinds := []*harness.Kind{c.apps, c.apps.In(other)}
	for _, k := range kinds { // at the same time: one of them is first
		k.Create("shop", spec)
	}
	names := map[string]*harness.Kind{}
	for _, k := range kinds {
		names[k.WaitReady("shop").ReleaseName] = k
	}
	there := in(e, target)
	if len(names) != 2 || names["shop"] == nil {
		t.Fatalf("release names %v", names)
	}
	for name, k := range names {
		there.WantHistory(name, "1:deployed")
		k.Patch("shop", `{"spec":{"values":{"message":"`+name+`"}}}`)
		k.WaitReady("shop")
	}
	first := names["shop"]
	first.Delete("shop")
	there.WaitObjectGone("v1", "ConfigMap", "shop")
	delete(names, "shop")
	for name, k := range names {
		message(t, there, name, name)
		there.WantHistory(name, "1:superseded 2:deployed")
		k.Patch("shop", `{"spec":{"values":{"message":"still there"}}}`)
		message(t, there, name, "still there") // its name is its own though a better one is free
		k.Delete("shop")
		there.WaitObjectGone("v1", "ConfigMap", name)
	}
}

func TestTargetNamespaceIsMadeAndStays(t *testing.T) {
	c := serveChosen(t)
	charts := shops(t, []string{c.Namespace}, "1.0.0")
	target, missing := harness.Name("made-"), harness.Name("missing-")
	spec := map[string]any{"chart": shop(charts.URL, "1.0.0"), "targetNamespace": target}
	c.apps.Create("shop", spec)
	st := c.apps.WaitCondition("shop", v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonForbidden)
	if !strings.Contains(st.Message, "may not list secrets in namespace "+target) {
		t.Errorf("message: %s", st.Message)
	}
	bound := func(name, clusterRole string) {
		t.Helper()
		c.Kubectl("create", "clusterrolebinding", name, "--clusterrole="+clusterRole, "--serviceaccount="+c.Namespace+":default")
		c.Cleanup(func() { kubectlQuietly(c.Env, "delete", "clusterrolebinding", name) })
	}
	bound(target, "edit")
	retry(c.apps, c.Env, "shop", "1")
	st = c.apps.WaitFor("shop", "may not make the namespace", func(st v1alpha1.CommonStatus) error {
		if !strings.Contains(st.Message, "may not create namespaces in the whole cluster; grant it: kubectl create clusterrole") ||
			!strings.Contains(st.Message, "kubectl create namespace "+target) {
			return errors.New(st.Message)
		}
		return nil
	})
	c.Kubectl("create", "clusterrole", target, "--verb=create", "--resource=namespaces")
	c.Cleanup(func() { kubectlQuietly(c.Env, "delete", "clusterrole", target) })
	bound(target+"-make", target)
	retry(c.apps, c.Env, "shop", "2")
	c.apps.WaitReady("shop")
	c.Cleanup(func() { kubectlQuietly(c.Env, "delete", "namespace", target, "--wait=false") })
	ns := c.Object("v1", "Namespace", target)
	if got := ns.GetAnnotations()[v1alpha1.AnnotationCreatedFor]; got != "helmapp.apps.chartgate.dev "+c.Namespace+"/shop" {
		t.Errorf("the namespace is made for %q", got)
	}
	c.apps.Delete("shop")
	in(c.Env, target).WaitObjectGone("v1", "ConfigMap", "shop")
	if ns := c.Object("v1", "Namespace", target); ns == nil || ns.GetDeletionTimestamp() != nil {
		t.Error("the namespace went with the release")
	}

	spec["targetNamespace"], spec["createNamespace"] = missing, false
	c.apps.Create("other", spec)
	c.apps.WaitFor("other", "waits for its namespace", func(st v1alpha1.CommonStatus) error {
		if !strings.Contains(st.Message, "namespace "+missing+" does not exist; create it (kubectl create namespace "+missing+")") {
			return errors.New(st.Message)
		}
		return nil
	})
	c.Kubectl("create", "namespace", missing)
	c.Cleanup(func() { kubectlQuietly(c.Env, "delete", "namespace", missing, "--wait=false") })
	retry(c.apps, c.Env, "other", "1")
	c.apps.WaitReady("other")
	c.apps.Delete("other")
}

// retry has the resource tried again at once.
func retry(k *harness.Kind, e *harness.Env, name, value string) {
	e.Helper()
	e.Kubectl("annotate", strings.ToLower(k.Kind)+"."+k.Group, name, v1alpha1.AnnotationReconcileAt+"="+value, "--overwrite")
}
