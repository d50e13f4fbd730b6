// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

func clientFor(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestKubeconfigLeadsToTheRunningServers(t *testing.T) {
	cluster := Shared(t)
	config, err := clientcmd.BuildConfigFromFlags("", cluster.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clientFor(t, config).CoreV1().Nodes().List(testContext(t, time.Minute), metav1.ListOptions{}); err != nil {
		t.Errorf("list nodes with the kubeconfig: %v", err)
	}
	want := []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}
	servers := cluster.Servers()
	if len(servers) != len(want) {
		t.Fatalf("servers = %+v, want %v", servers, want)
	}
	for i, server := range servers {
		if server.Name != want[i] {
			t.Errorf("server %d is %s, want %s", i, server.Name, want[i])
		}
		if !processRuns(server.PID) || !processRuns(server.GuardPID) {
			t.Errorf("%s: pid %d or its guard %d does not run", server.Name, server.PID, server.GuardPID)
		}
		if _, err := os.Stat(server.LogPath); err != nil {
			t.Error(err)
		}
	}
}

func TestUsersHaveOnlyTheRightsThatRBACGrants(t *testing.T) {
	cluster := Shared(t)
	ctx := testContext(t, time.Minute)
	admin := clientFor(t, cluster.Config())
	granted, other := cluster.Namespace(t), cluster.Namespace(t)
	if granted == other {
		t.Fatalf("two calls gave the same namespace %s", granted)
	}
	_, err := admin.RbacV1().RoleBindings(granted).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "readers", APIGroup: rbacv1.GroupName}},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "view", APIGroup: rbacv1.GroupName},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	readerConfig, err := cluster.User("alice", "readers")
	if err != nil {
		t.Fatal(err)
	}
	reader := clientFor(t, readerConfig)

	// The API server's view of RBAC lags a little behind.
	err = supervise.WaitFor(ctx, "the reader's rights", func(ctx context.Context) error {
		_, err := reader.CoreV1().ConfigMaps(granted).List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.CoreV1().ConfigMaps(other).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list in the other namespace: got %v, want Forbidden", err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if _, err := reader.CoreV1().ConfigMaps(granted).Create(ctx, object, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("create without the right: got %v, want Forbidden", err)
	}
}

func TestNamespacesIsolateTests(t *testing.T) {
	cluster := Shared(t)
	client := clientFor(t, cluster.Config())
	var first string
	create := func(t *testing.T, namespace string) {
		t.Helper()
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "same-name"}}
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(testContext(t, time.Minute), object, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
	t.Run("First test, with Characters that no name may have", func(t *testing.T) {
		first = cluster.Namespace(t)
		create(t, first)
	})
	t.Run("second", func(t *testing.T) { create(t, cluster.Namespace(t)) })

	// It stays, with what the test left in it: emptying it is dear.
	if _, err := client.CoreV1().ConfigMaps(first).Get(testContext(t, time.Minute), "same-name", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func podTemplate(labels map[string]string, restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	container := corev1.Container{Name: "main", Image: "registry.invalid/none"}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init", Image: "registry.invalid/none"}},
			Containers:     []corev1.Container{container},
			RestartPolicy:  restart,
		},
	}
}

// deploy creates a Deployment and waits until it is Available.
func deploy(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	labels := map[string]string{"app": name}
	replicas := int32(3)
	deployments := client.AppsV1().Deployments(namespace)
	_, err := deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: podTemplate(labels, corev1.RestartPolicyAlways),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return supervise.WaitFor(ctx, "the Deployment "+name, func(ctx context.Context) error {
		got, err := deployments.Get(ctx, name, metav1.GetOptions{})
		if err == nil && got.Status.AvailableReplicas != replicas {
			err = fmt.Errorf("%d of %d replicas are available", got.Status.AvailableReplicas, replicas)
		}
		return err
	})
}

func TestSimulatedNodesRunDeploymentsAndJobs(t *testing.T) {
	cluster := Shared(t)
	ctx := testContext(t, time.Minute)
	client := clientFor(t, cluster.Config())
	namespace := cluster.Namespace(t)
	if err := deploy(ctx, client, namespace, "web"); err != nil {
		t.Fatal(err)
	}
	jobs := client.BatchV1().Jobs(namespace)
	_, err := jobs.Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Spec:       batchv1.JobSpec{Template: podTemplate(nil, corev1.RestartPolicyNever)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = supervise.WaitFor(ctx, "the Job", func(ctx context.Context) error {
		got, err := jobs.Get(ctx, "hook", metav1.GetOptions{})
		if err == nil && got.Status.CompletionTime == nil {
			err = errors.New("it is not complete")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	if err := client.AppsV1().Deployments(namespace).Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err = supervise.WaitFor(ctx, "the end of the Pods", func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d Pods are left", len(pods.Items))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAPIServerStopsAndComesBack(t *testing.T) {
	cluster := Shared(t)
	ctx := testContext(t, 2*time.Minute)
	client := clientFor(t, cluster.Config())
	namespace := cluster.Namespace(t)
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	if _, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, kept, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	for range 2 { // stopping a stopped server does nothing
		if err := cluster.StopAPIServer(); err != nil {
			t.Fatal(err)
		}
	}
	var refused *net.OpError
	if _, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); !errors.As(err, &refused) {
		t.Errorf("a request without an API server: got %v, want a refused connection", err)
	}

	for range 2 {
		if err := cluster.StartAPIServer(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("the data before the stop: %v", err)
	}
	if err := deploy(ctx, client, namespace, "after"); err != nil {
		t.Errorf("controllers and nodes after the API server's return: %v", err)
	}
}

func TestStartFailureShowsTheServersLog(t *testing.T) {
	dir := t.TempDir()
	_, err := Start(testContext(t, time.Minute), Options{Dir: dir, APIServerArgs: []string{"--no-such-flag"}})
	if err == nil {
		t.Fatal("the control plane started with an unknown flag")
	}
	for _, want := range []string{"kube-apiserver", filepath.Join(dir, "kube-apiserver.log"), "unknown flag: --no-such-flag"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}
