// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/harness"
)

// message waits until the release's ConfigMap has the message.
func message(t *testing.T, e *harness.Env, name, want string) {
	t.Helper()
	e.WaitObject("v1", "ConfigMap", name, func(o *unstructured.Unstructured) error {
		if got := data(o, "message"); got != want {
			return fmt.Errorf("message is %q, want %q", got, want)
		}
		return nil
	})
}

func waitHistory(e *harness.Env, name, want string) {
	e.Helper()
	e.Eventually("history of "+name, func() error {
		if got := e.Statuses(name); got != want {
			return fmt.Errorf("history is %q, want %q", got, want)
		}
		return nil
	})
}

func TestHelmRollbackIsRespectedUntilTheSpecChanges(t *testing.T) {
	e := sideBySide(t)
	chart := e.Chart("one", configChart)
	k := e.GatedKind(chart)
	m := e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{"message": "first"})
	k.WaitReady("one")
	k.Patch("one", `{"spec":{"message":"second"}}`)
	k.WaitReady("one")
	e.Helm("rollback", "one", "1")
	st := k.WaitCondition("one", v1alpha1.ConditionRolledBack, metav1.ConditionTrue, v1alpha1.ReasonHelmRollback)
	if st.Revision != 3 || st.Phase != v1alpha1.PhaseDeployed {
		t.Errorf("status after the rollback: %+v", st)
	}
	patch(t, e, "v1", "ConfigMap", "one", `{"data":{"message":"edited"}}`)
	message(t, e, "one", "first") // repaired to the revision they chose

	// It stays respected when operator and chart change.
	m.Stop()
	e.WriteFile(chart+"/Chart.yaml", "apiVersion: v2\nname: one\nversion: 0.2.0\n")
	e.WriteFile(chart+"/templates/more.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}-more\"}\n")
	m.Start()
	k.Create("two", nil)
	k.WaitReady("two")
	e.WaitObject("v1", "ConfigMap", "two-more", nil)
	patch(t, e, "v1", "ConfigMap", "one", `{"data":{"message":"edited"}}`)
	message(t, e, "one", "first")
	e.WantHistory("one", "1:superseded 2:superseded 3:deployed")

	k.Patch("one", `{"spec":{"message":"third"}}`)
	st = k.WaitReady("one")
	if harness.Condition(st, v1alpha1.ConditionRolledBack) != nil || st.Revision != 4 {
		t.Errorf("status after the spec changed: %+v", st)
	}
	message(t, e, "one", "third")
	e.WaitObject("v1", "ConfigMap", "one-more", nil)
}

func TestResumeEndsTheRespectForARollback(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{"message": "first"})
	k.WaitReady("one")
	k.Patch("one", `{"spec":{"message":"second"}}`)
	k.WaitReady("one")
	e.Helm("rollback", "one", "1")
	k.WaitCondition("one", v1alpha1.ConditionRolledBack, metav1.ConditionTrue, "")
	e.Kubectl("annotate", strings.ToLower(k.Kind)+"."+k.Group, "one", v1alpha1.AnnotationResume+"=now", "-n", e.Namespace)
	message(t, e, "one", "second")
	waitHistory(e, "one", "1:superseded 2:superseded 3:superseded 4:deployed")
	k.WaitFor("one", "resumed", func(st v1alpha1.CommonStatus) error {
		if harness.Condition(st, v1alpha1.ConditionRolledBack) != nil || st.LastHandledResume != "now" {
			return fmt.Errorf("%s", harness.Conditions(st))
		}
		return nil
	})
}

func TestHelmUpgradeAndUninstallByHandAreRepaired(t *testing.T) {
	e := sideBySide(t)
	chart := e.Chart("one", configChart)
	k := e.GatedKind(chart)
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{"message": "mine"})
	k.WaitReady("one")
	e.Helm("upgrade", "one", chart, "--set", "message=theirs")
	waitHistory(e, "one", "1:superseded 2:superseded 3:deployed")
	message(t, e, "one", "mine")
	e.Helm("uninstall", "one")
	waitHistory(e, "one", "1:deployed")
	message(t, e, "one", "mine")
	e.Helm("uninstall", "one", "--keep-history")
	waitHistory(e, "one", "1:uninstalled 2:deployed")
	message(t, e, "one", "mine")
	k.WaitReady("one")
	k.Delete("one")
	e.WantHistory("one", "")
}

func TestAdoptTakesOverWhatHelmInstalled(t *testing.T) {
	e := sideBySide(t)
	chart := e.Chart("small", smallChart)
	k := e.GatedKind(chart)
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	for _, name := range []string{"same", "other"} {
		e.Helm("install", name, chart, "--set", "message=theirs,replicas=0,big=5") // helm renders large integers of values.yaml as 1e+06
		obj := k.Named(name)
		obj.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "true"})
		obj.Object["spec"] = map[string]any{"message": "theirs", "replicas": int64(0), "big": int64(5)}
		if name == "other" {
			obj.Object["spec"] = map[string]any{"message": "mine", "replicas": int64(0), "big": int64(5)}
		}
		if err := e.Client.Create(e.Ctx, obj); err != nil {
			t.Fatal(err)
		}
		k.WaitReady(name)
	}
	e.WantHistory("same", "1:deployed")
	e.WantHistory("other", "1:superseded 2:deployed")
	owner, _ := k.Get("same")
	for kind, apiVersion := range map[string]string{"ConfigMap": "v1", "Service": "v1", "Deployment": "apps/v1"} {
		if ref := metav1.GetControllerOf(e.Object(apiVersion, kind, "same")); ref == nil || ref.UID != owner.GetUID() {
			t.Errorf("%s is not owned by the resource: %v", kind, ref)
		}
	}
	message(t, e, "other", "mine")
	k.Delete("same")
	e.WantHistory("same", "")
	e.WaitObjectGone("apps/v1", "Deployment", "same")
}

// forge changes what is stored of a release, as anybody may who may edit Secrets.
func forge(t *testing.T, e *harness.Env, name string, change func(*helmrelease.Release)) {
	t.Helper()
	releases := storage.Init(driver.NewSecrets(e.Kube.CoreV1().Secrets(e.Namespace)))
	rel, err := releases.Last(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, system := range []string{"name", "owner", "status", "version", "createdAt", "modifiedAt"} {
		delete(rel.Labels, system)
	}
	change(rel)
	if err := releases.Update(rel); err != nil {
		t.Fatal(err)
	}
}

func TestForgedReleasesAreNotAppliedBeyondTheNamespace(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	m := e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	evil := harness.Name("evil-")
	add := func(rel *helmrelease.Release) {
		rel.Manifest += fmt.Sprintf("---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %s}\nrules: []\n", evil)
		rel.Hooks = append(rel.Hooks, &helmrelease.Hook{
			Name: evil, Kind: "ClusterRole", Path: "x", Events: []helmrelease.HookEvent{helmrelease.HookPreDelete},
			Manifest: fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %s-hook}\nrules: []\n", evil),
		})
	}
	none := func() {
		t.Helper()
		for _, name := range []string{evil, evil + "-hook"} {
			if e.Object("rbac.authorization.k8s.io/v1", "ClusterRole", name) != nil {
				t.Errorf("ClusterRole %s was made of a forged release", name)
			}
		}
	}
	k.Create("edited", map[string]any{"message": "mine"})
	k.WaitReady("edited")
	forge(t, e, "edited", add)
	waitHistory(e, "edited", "1:superseded 2:deployed") // what was edited is released again
	patch(t, e, "v1", "ConfigMap", "edited", `{"data":{"message":"x"}}`)
	message(t, e, "edited", "mine")
	none()

	// Nor when the status, and with it the record of what was written, is lost.
	k.Create("lost", map[string]any{"message": "mine"})
	k.WaitReady("lost")
	m.Stop()
	forge(t, e, "lost", add)
	obj, _ := k.Get("lost")
	if err := e.Client.Status().Patch(e.Ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))); err != nil {
		t.Fatal(err)
	}
	patch(t, e, "v1", "ConfigMap", "lost", `{"data":{"message":"x"}}`)
	m.Start()
	message(t, e, "lost", "mine")
	k.WaitReady("lost")
	k.Delete("lost")
	none()
}

func TestRestoredWithoutStatusGoesOnWhereItWas(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", smallChart))
	m := e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{"message": "first"})
	k.WaitReady("one")
	k.Patch("one", `{"spec":{"message":"second"}}`)
	before := k.WaitReady("one")
	m.Stop()
	uid := e.Object("apps/v1", "Deployment", "one").GetUID()
	obj, _ := k.Get("one")
	obj.SetFinalizers(nil) // as restored: no status, no finalizer, another UID
	if err := e.Client.Update(e.Ctx, obj); err != nil {
		t.Fatal(err)
	}
	if err := e.Client.Delete(e.Ctx, obj, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	k.WaitGone("one")
	k.Create("one", map[string]any{"message": "second"})
	m.Start()
	st := k.WaitReady("one")
	if st.Revision != 2 || st.AppliedDigest != before.AppliedDigest {
		t.Errorf("restored status: %+v", st)
	}
	e.WantHistory("one", "1:superseded 2:deployed")
	restored, _ := k.Get("one")
	for kind, apiVersion := range map[string]string{"ConfigMap": "v1", "Service": "v1", "Deployment": "apps/v1"} {
		e.WaitObject(apiVersion, kind, "one", func(o *unstructured.Unstructured) error {
			if ref := metav1.GetControllerOf(o); ref == nil || ref.UID != restored.GetUID() {
				return fmt.Errorf("owner is %v", ref)
			}
			return nil
		})
	}
	if got := e.Object("apps/v1", "Deployment", "one").GetUID(); got != uid {
		t.Error("the Deployment was made anew")
	}
}
