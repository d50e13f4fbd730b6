// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/harness"
)

// webApps starts an operator that serves WebApps in the test's namespace.
func webApps(t *testing.T) (*harness.Env, *harness.Kind) {
	t.Helper()
	e := sideBySide(t)
	serveWebApps(e)
	k := webAppKind(e)
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Namespaces: []string{e.Namespace}, Args: onlyWatches})
	return e, k
}

func webAppKind(e *harness.Env) *harness.Kind {
	return (&harness.Kind{
		GroupVersionKind: v1alpha1.GroupVersion.WithKind(v1alpha1.KindWebApp),
		Chart:            filepath.Join(e.Root(), "helm-charts/webapp"), Extra: "  translator: webapp\n",
	}).In(e)
}

func waitRunning(k *harness.Kind, name string, replicas int64) v1alpha1.CommonStatus {
	return k.WaitFor(name, fmt.Sprintf("runs with %d replicas", replicas), func(st v1alpha1.CommonStatus) error {
		obj, _ := k.Get(name)
		have, _, _ := unstructured.NestedInt64(obj.Object, "status", "replicas")
		ready, _, _ := unstructured.NestedInt64(obj.Object, "status", "readyReplicas")
		if st.Phase != v1alpha1.PhaseRunning || st.Message != "All replicas are ready" || have != replicas || ready != replicas {
			return fmt.Errorf("phase %s, %q, %d of %d", st.Phase, st.Message, ready, have)
		}
		return nil
	})
}

// followed collects the phases and messages that resources of a kind of ours go through.
func followed(e *harness.Env, resource string) func() []string {
	client, err := dynamic.NewForConfig(e.Cluster.Config())
	if err != nil {
		e.Fatal(err)
	}
	w, err := client.Resource(v1alpha1.GroupVersion.WithResource(resource)).Namespace(e.Namespace).Watch(e.Ctx, metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(w.Stop)
	var mu sync.Mutex
	var seen []string
	go func() {
		for event := range w.ResultChan() {
			obj, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
			message, _, _ := unstructured.NestedString(obj.Object, "status", "message")
			mu.Lock()
			seen = append(seen, phase+": "+message)
			mu.Unlock()
		}
	}()
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// wantTold waits until what followed collects has all the parts.
func wantTold(e *harness.Env, told func() []string, parts ...string) {
	e.Helper()
	e.Eventually("the status has told all", func() error {
		all := strings.Join(told(), "\n")
		for _, part := range parts {
			if !strings.Contains(all, part) {
				return fmt.Errorf("the status never told %q:\n%s", part, all)
			}
		}
		return nil
	})
}

func TestWebAppLifecycle(t *testing.T) {
	e, k := webApps(t)
	told := followed(e, "webapps")
	k.Create("shop", map[string]any{"image": "registry.test/shop:1", "replicas": int64(3), "config": map[string]any{"B": "2", "A": "1"}})
	waitRunning(k, "shop", 3)
	obj, _ := k.Get("shop")
	if selector, _, _ := unstructured.NestedString(obj.Object, "status", "selector"); !strings.Contains(selector, "app=shop") {
		t.Errorf("status.selector is %q", selector)
	}
	wantTold(e, told, "Deploying: ", "Running: All replicas are ready")

	// Replicas alone: at once, no revision, though a gate holds every change.
	k.Patch("shop", `{"spec":{"gates":[{"name":"release","type":"ManualApproval"}]}}`)
	e.Kubectl("scale", "webapp", "shop", "--replicas=5", "-n", e.Namespace)
	if st := waitRunning(k, "shop", 5); st.Revision != 1 || st.Pending != nil {
		t.Errorf("revision %d, pending %+v", st.Revision, st.Pending)
	}
	e.WantHistory("shop", "1:deployed")

	// Also while another image waits.
	k.Patch("shop", `{"spec":{"image":"registry.test/shop:2"}}`)
	waitHeld(k, "shop")
	e.Kubectl("scale", "webapp", "shop", "--replicas=4", "-n", e.Namespace)
	k.WaitFor("shop", "has 4 replicas while a change is held", func(st v1alpha1.CommonStatus) error {
		obj, _ := k.Get("shop")
		if have, _, _ := unstructured.NestedInt64(obj.Object, "status", "readyReplicas"); have != 4 || st.Pending == nil {
			return fmt.Errorf("%d ready, pending %+v", have, st.Pending)
		}
		return nil
	})
	k.Patch("shop", `{"spec":{"image":"registry.test/shop:1","replicas":5}}`)
	waitRunning(k, "shop", 5)
	e.WantHistory("shop", "1:deployed")

	// The Deployment's own replicas are put back, unless an autoscaler set them.
	e.Kubectl("scale", "deployment", "shop", "--replicas=1", "-n", e.Namespace)
	e.WaitObject("apps/v1", "Deployment", "shop", func(o *unstructured.Unstructured) error {
		if n, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); n != 5 {
			return fmt.Errorf("%d replicas", n)
		}
		return nil
	})
	waitRunning(k, "shop", 5)
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "shop"}, Spec: autoscalingv1.ScaleSpec{Replicas: 7}}
	if _, err := e.Kube.AppsV1().Deployments(e.Namespace).UpdateScale(e.Ctx, "shop", scale, metav1.UpdateOptions{FieldManager: "autoscaler"}); err != nil {
		t.Fatal(err)
	}
	waitRunning(k, "shop", 7)

	// Another image waits for the approval, then rolls; the autoscaler is not fought.
	k.Patch("shop", `{"spec":{"image":"registry.test/shop:2"}}`)
	waitHeld(k, "shop")
	if image := imageOf(t, e); image != "registry.test/shop:1" {
		t.Errorf("the image is %s while the change is held", image)
	}
	createConfigMap(e, "approval-shop", map[string]string{"approved": "true"})
	k.WaitFor("shop", "is at revision 2", func(st v1alpha1.CommonStatus) error {
		if st.Revision != 2 {
			return fmt.Errorf("revision %d", st.Revision)
		}
		return nil
	})
	waitRunning(k, "shop", 7)
	if image := imageOf(t, e); image != "registry.test/shop:2" {
		t.Errorf("the image is %s", image)
	}

	k.Delete("shop")
	for _, kind := range []string{"deployments", "services", "secrets", "poddisruptionbudgets", "serviceaccounts"} {
		left := strings.Fields(e.Kubectl("get", kind, "-n", e.Namespace, "-o", "name"))
		if left = slices.DeleteFunc(left, func(name string) bool { return name == "serviceaccount/default" }); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

func TestWebAppSaysHowManyReplicasAreReady(t *testing.T) {
	e, k := webApps(t)
	told := followed(e, "webapps")
	k.Create("shop", map[string]any{"image": "registry.test/shop:1", "replicas": int64(3), "nodeSelector": map[string]any{"on": "no-node"}})
	wantTold(e, told, "Updating: 0/3 replicas ready")
	k.Patch("shop", `{"spec":{"nodeSelector":null}}`)
	waitRunning(k, "shop", 3)
}

func TestWebAppLeavesAForeignDeploymentAlone(t *testing.T) {
	e, k := webApps(t)
	labels := map[string]string{"app": "mine"}
	mine := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.test/mine:1"}}}},
	}}
	made, err := e.Kube.AppsV1().Deployments(e.Namespace).Create(e.Ctx, mine, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k.Create("shop", map[string]any{"image": "registry.test/shop:1"})
	st := k.WaitCondition("shop", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonOwnershipConflict)
	if c := harness.Condition(st, v1alpha1.ConditionStalled); !strings.Contains(c.Message, "Deployment") || !strings.Contains(c.Message, "shop") {
		t.Errorf("the condition says %q", c.Message)
	}
	k.Delete("shop")
	after, err := e.Kube.AppsV1().Deployments(e.Namespace).Get(e.Ctx, "shop", metav1.GetOptions{})
	if err != nil || after.UID != made.UID || after.Generation != made.Generation {
		t.Errorf("the foreign Deployment was touched: %v, generation %d", err, after.Generation)
	}
}

func imageOf(t *testing.T, e *harness.Env) string {
	t.Helper()
	d, err := e.Kube.AppsV1().Deployments(e.Namespace).Get(e.Ctx, "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d.Spec.Template.Spec.Containers[0].Image
}
