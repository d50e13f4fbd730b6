// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/harness"
)

// databases starts an operator that serves Databases in the test's namespace.
func databases(t *testing.T) (*harness.Env, *harness.Kind, *harness.Manager) {
	t.Helper()
	e := sideBySide(t)
	serveDatabases(e)
	k := databaseKind(e)
	return e, k, e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Namespaces: []string{e.Namespace}, Args: onlyWatches})
}

func databaseKind(e *harness.Env) *harness.Kind {
	return (&harness.Kind{
		GroupVersionKind: v1alpha1.GroupVersion.WithKind(v1alpha1.KindDatabase),
		Chart:            filepath.Join(e.Root(), "helm-charts/database"), Extra: "  translator: database\n",
	}).In(e)
}

// waitServers waits until so many servers run the version.
func waitServers(k *harness.Kind, name string, servers int64, version string) v1alpha1.CommonStatus {
	return k.WaitFor(name, fmt.Sprintf("runs %d servers of version %s", servers, version), func(st v1alpha1.CommonStatus) error {
		obj, _ := k.Get(name)
		have, _, _ := unstructured.NestedInt64(obj.Object, "status", "currentReplicas")
		ready, _, _ := unstructured.NestedInt64(obj.Object, "status", "readyReplicas")
		now, _, _ := unstructured.NestedString(obj.Object, "status", "currentVersion")
		if st.Phase != v1alpha1.PhaseRunning || have != servers || ready != servers || now != version {
			return fmt.Errorf("phase %s, %q, %d of %d servers, version %s", st.Phase, st.Message, ready, have, now)
		}
		return nil
	})
}

func credentials(e *harness.Env, name string) map[string][]byte {
	e.Helper()
	secret, err := e.Kube.CoreV1().Secrets(e.Namespace).Get(e.Ctx, name+"-credentials", metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return secret.Data
}

func sameBytes(a, b map[string][]byte) bool {
	return maps.EqualFunc(a, b, func(x, y []byte) bool { return string(x) == string(y) })
}

// podsOf returns the UIDs of a Database's servers by their names.
func podsOf(e *harness.Env, name string) map[string]string {
	e.Helper()
	pods, err := e.Kube.CoreV1().Pods(e.Namespace).List(e.Ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		e.Fatal(err)
	}
	out := map[string]string{}
	for i := range pods.Items {
		out[pods.Items[i].Name] = string(pods.Items[i].UID)
	}
	return out
}

// claims returns the sizes that a Database's claims ask for, by their names.
func claims(e *harness.Env, name string) map[string]string {
	e.Helper()
	list, err := e.Kube.CoreV1().PersistentVolumeClaims(e.Namespace).List(e.Ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelDatabase + "=" + name})
	if err != nil {
		e.Fatal(err)
	}
	out := map[string]string{}
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].Spec.Resources.Requests.Storage().String()
	}
	return out
}

func waitClaims(e *harness.Env, name string, want map[string]string) {
	e.Helper()
	e.Eventually("claims of "+name+" are "+fmt.Sprint(want), func() error {
		if have := claims(e, name); !maps.Equal(have, want) {
			return fmt.Errorf("claims: %v", have)
		}
		return nil
	})
}

func databaseSpec(e *harness.Env, replicas int64, more map[string]any) map[string]any {
	spec := map[string]any{
		"replicas": replicas, "storageSize": "1Gi", "storageClass": growingClass(e),
		"image": "registry.test/postgres:17",
	}
	maps.Copy(spec, more)
	return spec
}

func TestDatabaseLifecycle(t *testing.T) {
	e, k, operator := databases(t)
	told := followed(e, "databases")
	k.Create("shop", databaseSpec(e, 3, map[string]any{"backup": map[string]any{"enabled": true, "storageSize": "1Gi"}}))
	wantTold(e, told, "Deploying: ", "Updating: 0/3 replicas ready")
	provideVolumes(e) // what its pods wait for
	waitServers(k, "shop", 3, "17")
	wantTold(e, told, "Running: All replicas are ready")
	made, pods := credentials(e, "shop"), podsOf(e, "shop")
	if string(made["username"]) != "admin" || len(made["password"]) < 20 {
		t.Errorf("credentials: %d bytes of password for %q", len(made["password"]), made["username"])
	}

	// A backup that succeeds shows.
	e.Kubectl("create", "job", "now", "--from=cronjob/shop-backup", "-n", e.Namespace)
	k.WaitFor("shop", "tells of its last backup", func(v1alpha1.CommonStatus) error {
		obj, _ := k.Get("shop")
		if at, _, _ := unstructured.NestedString(obj.Object, "status", "lastBackup"); at == "" {
			return fmt.Errorf("status: %v", obj.Object["status"])
		}
		return nil
	})

	// More storage: the claims grow, and no pod restarts.
	set := e.Object("apps/v1", "StatefulSet", "shop")
	k.Patch("shop", `{"spec":{"storageSize":"2Gi"}}`)
	grown := map[string]string{"data-shop-0": "2Gi", "data-shop-standby-0": "2Gi", "data-shop-standby-1": "2Gi", "shop-backup": "1Gi"}
	waitClaims(e, "shop", grown)
	waitRevision(k, "shop", 2)
	waitServers(k, "shop", 3, "17")
	if now := podsOf(e, "shop"); !maps.Equal(withoutJobs(now), withoutJobs(pods)) {
		t.Errorf("pods were %v and are %v", pods, now)
	}
	if now := e.Object("apps/v1", "StatefulSet", "shop"); now.GetUID() == set.GetUID() || templateSize(now) != "2Gi" {
		t.Errorf("StatefulSet of %s with claims of %s", now.GetUID(), templateSize(now))
	}

	// Another minor version rolls; upgrades, a rollback and a restart leave the credentials as they are.
	k.Patch("shop", `{"spec":{"version":"17.5","image":"registry.test/postgres:17.5"}}`)
	waitServers(k, "shop", 3, "17.5")
	for i := range 3 {
		k.Patch("shop", fmt.Sprintf(`{"spec":{"backup":{"retention":%d}}}`, i+2))
		waitRevision(k, "shop", int64(i+4))
	}
	operator.Stop()
	operator.Start()
	e.Helm("rollback", "shop", "5", "-n", e.Namespace)
	k.WaitCondition("shop", v1alpha1.ConditionRolledBack, metav1.ConditionTrue, v1alpha1.ReasonHelmRollback)
	if now := credentials(e, "shop"); !sameBytes(now, made) {
		t.Error("the credentials changed")
	}
	k.Patch("shop", `{"spec":{"backup":{"retention":9}}}`)
	waitRevision(k, "shop", 8)

	// A password that somebody set survives a change that fails and is taken back.
	e.Kubectl("patch", "secret", "shop-credentials", "-n", e.Namespace, "-p", `{"stringData":{"password":"changed"}}`)
	k.Patch("shop", `{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In"}]}]}}}}}`)
	k.WaitCondition("shop", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidObject)
	k.Patch("shop", `{"spec":{"affinity":null}}`)
	waitServers(k, "shop", 3, "17.5")
	if now := credentials(e, "shop"); string(now["password"]) != "changed" {
		t.Error("the password that somebody set is gone")
	}
	made["password"] = []byte("changed")

	// Retain: exactly the data stay, and a Database of the name finds them again.
	k.Delete("shop")
	waitLeft(e, "persistentvolumeclaim/data-shop-0", "persistentvolumeclaim/data-shop-standby-0", "persistentvolumeclaim/data-shop-standby-1",
		"persistentvolumeclaim/shop-backup", "secret/shop-credentials")
	k.Create("shop", databaseSpec(e, 1, map[string]any{"storageSize": "1Gi", "image": "registry.test/postgres:17"}))
	waitServers(k, "shop", 1, "17")
	if now := credentials(e, "shop"); !sameBytes(now, made) {
		t.Error("the credentials are not those that were kept")
	}
	waitClaims(e, "shop", grown)

	// Standbys that come back find claims that grow with the primary's.
	k.Patch("shop", `{"spec":{"storageSize":"3Gi"}}`)
	grown["data-shop-0"] = "3Gi"
	waitClaims(e, "shop", grown)
	k.Patch("shop", `{"spec":{"replicas":2}}`)
	grown["data-shop-standby-0"], grown["data-shop-standby-1"] = "3Gi", "3Gi"
	waitClaims(e, "shop", grown)
	waitServers(k, "shop", 2, "17")

	// Delete: nothing stays, but for what only looks like the Database's.
	e.Kubectl("create", "secret", "generic", "mine", "-n", e.Namespace)
	e.Kubectl("label", "secret", "mine", "-n", e.Namespace, v1alpha1.LabelDatabase+"=shop")
	k.Patch("shop", `{"spec":{"deletionPolicy":"Delete"}}`)
	k.Delete("shop")
	waitLeft(e, "secret/mine")
}

func waitRevision(k *harness.Kind, name string, revision int64) {
	k.WaitFor(name, fmt.Sprintf("is at revision %d", revision), func(st v1alpha1.CommonStatus) error {
		if st.Revision != revision {
			return fmt.Errorf("revision %d: %s", st.Revision, st.Message)
		}
		return nil
	})
}

// withoutJobs leaves the pods of servers.
func withoutJobs(pods map[string]string) map[string]string {
	out := maps.Clone(pods)
	maps.DeleteFunc(out, func(name, _ string) bool { return !strings.HasPrefix(name, "shop") })
	return out
}

func templateSize(set *unstructured.Unstructured) string {
	templates, _, _ := unstructured.NestedSlice(set.Object, "spec", "volumeClaimTemplates")
	for _, item := range templates {
		if template, ok := item.(map[string]any); ok {
			size, _, _ := unstructured.NestedString(template, "spec", "resources", "requests", "storage")
			return size
		}
	}
	return ""
}

// waitLeft waits until just these objects are left in the namespace.
func waitLeft(e *harness.Env, want ...string) {
	e.Helper()
	e.Eventually("just "+strings.Join(want, ", ")+" is left", func() error {
		left := strings.Fields(e.Kubectl("get", "statefulsets,deployments,services,configmaps,secrets,pods,persistentvolumeclaims,poddisruptionbudgets,cronjobs,jobs",
			"-n", e.Namespace, "-o", "name"))
		left = slices.DeleteFunc(left, func(name string) bool { return name == "configmap/kube-root-ca.crt" })
		if slices.Sort(left); !slices.Equal(left, want) {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}

// A volume that can't grow stops the change, says so, and touches no server.
func TestDatabaseOnStorageThatCannotGrow(t *testing.T) {
	e, k, _ := databases(t)
	provideVolumes(e)
	k.Create("shop", databaseSpec(e, 2, map[string]any{"storageClass": fixedClass(e)}))
	waitServers(k, "shop", 2, "17")
	pods, set := podsOf(e, "shop"), e.Object("apps/v1", "StatefulSet", "shop")
	k.Patch("shop", `{"spec":{"storageSize":"2Gi"}}`)
	st := k.WaitCondition("shop", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidObject)
	c := harness.Condition(st, v1alpha1.ConditionStalled)
	for _, part := range []string{"PersistentVolumeClaim " + e.Namespace + "/data-shop-0 can't grow to 2Gi", "allowVolumeExpansion: true", "rolled back"} {
		if !strings.Contains(c.Message, part) {
			t.Errorf("the condition does not say %q: %s", part, c.Message)
		}
	}
	if now := podsOf(e, "shop"); !maps.Equal(now, pods) {
		t.Errorf("pods were %v and are %v", pods, now)
	}
	if now := e.Object("apps/v1", "StatefulSet", "shop"); now.GetUID() != set.GetUID() {
		t.Error("the StatefulSet was made anew")
	}
}

func TestDatabaseLeavesAForeignStatefulSetAlone(t *testing.T) {
	e, k, _ := databases(t)
	labels := map[string]string{"app": "mine"}
	mine := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "shop-standby"}, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.test/mine:1"}}}},
	}}
	made, err := e.Kube.AppsV1().StatefulSets(e.Namespace).Create(e.Ctx, mine, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k.Create("shop", databaseSpec(e, 2, map[string]any{"deletionPolicy": "Delete"}))
	st := k.WaitCondition("shop", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonOwnershipConflict)
	if c := harness.Condition(st, v1alpha1.ConditionStalled); !strings.Contains(c.Message, "StatefulSet") || !strings.Contains(c.Message, "shop-standby") {
		t.Errorf("the condition says %q", c.Message)
	}
	k.Delete("shop")
	after, err := e.Kube.AppsV1().StatefulSets(e.Namespace).Get(e.Ctx, "shop-standby", metav1.GetOptions{})
	if err != nil || after.UID != made.UID || after.Generation != made.Generation {
		t.Errorf("the foreign StatefulSet was touched: %v, generation %d", err, after.Generation)
	}
}
