// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/test/e2e/images"
)

// waitLimit bounds each wait of a test. Pods start, images are pulled and OLM
// works in that time, on a busy machine as well.
const waitLimit = 4 * time.Minute

// kubectl runs kubectl and returns what it prints; stdin may be empty.
func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := tryKubectl(t.Context(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryKubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	return command(ctx, stdin, env.kubectl, args...)
}

// helm runs the Helm CLI and returns what it prints.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), "", env.helm, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func command(ctx context.Context, stdin, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.cluster.KubeconfigPath())
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = 10 * time.Second
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s%s", program, strings.Join(args, " "), err, out.String(), problems.String())
	}
	return out.String(), nil
}

// eventually polls until check succeeds.
func eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// limited returns a context for one wait.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	t.Cleanup(cancel)
	return ctx
}

var guestbookKind = schema.GroupVersionKind{Group: "apps.chartgate.dev", Version: "v1alpha1", Kind: "Guestbook"}

// guestbook is one resource under test.
type guestbook struct{ namespace, name string }

func (g guestbook) read(ctx context.Context) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(guestbookKind)
	return obj, env.client.Get(ctx, client.ObjectKey{Namespace: g.namespace, Name: g.name}, obj)
}

// waitReady waits until the Guestbook is ready at its current generation, and returns it.
func (g guestbook) waitReady(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return g.waitFor(t, "is ready", func(obj *unstructured.Unstructured) error {
		return g.condition(obj, "Ready", "True", "")
	})
}

func (g guestbook) waitFor(t *testing.T, what string, check func(*unstructured.Unstructured) error) *unstructured.Unstructured {
	t.Helper()
	var obj *unstructured.Unstructured
	eventually(t, fmt.Sprintf("Guestbook %s/%s %s", g.namespace, g.name, what), func(ctx context.Context) error {
		var err error
		if obj, err = g.read(ctx); err != nil {
			return err
		}
		return check(obj)
	})
	return obj
}

// condition tells how a condition differs from what is wanted. An empty reason is any.
func (g guestbook) condition(obj *unstructured.Unstructured, conditionType, want, reason string) error {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		if c["type"] != conditionType {
			continue
		}
		if observed, _ := c["observedGeneration"].(int64); c["status"] == want && (reason == "" || c["reason"] == reason) && observed == obj.GetGeneration() {
			return nil
		}
		return fmt.Errorf("condition %v, generation %d", c, obj.GetGeneration())
	}
	return fmt.Errorf("no condition %s; status %v", conditionType, obj.Object["status"])
}

func revision(obj *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(obj.Object, "status", "revision")
	return n
}

// pods returns the uid and the number of restarts of a namespace's pods by their name.
func pods(t *testing.T, namespace string) map[string]string {
	t.Helper()
	var list corev1.PodList
	must(t, env.client.List(t.Context(), &list, client.InNamespace(namespace)))
	out := map[string]string{}
	for _, p := range list.Items {
		restarts := int32(0)
		for _, c := range p.Status.ContainerStatuses {
			restarts += c.RestartCount
		}
		out[p.Name] = fmt.Sprintf("%s restarts=%d", p.UID, restarts)
	}
	return out
}

// releases returns the uid and resourceVersion of a namespace's release Secrets by their name.
func releases(ctx context.Context, t *testing.T, namespace string) map[string]string {
	t.Helper()
	var list corev1.SecretList
	must(t, env.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{"owner": "helm"}))
	out := map[string]string{}
	for _, s := range list.Items {
		out[s.Name] = fmt.Sprintf("%s %s %s", s.UID, s.ResourceVersion, s.Labels["status"])
	}
	return out
}

// gone tells whether an object is left.
func gone(ctx context.Context, obj client.Object, namespace, name string) error {
	err := env.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	if err == nil {
		return fmt.Errorf("%T %s/%s is left", obj, namespace, name)
	}
	return client.IgnoreNotFound(err)
}

// fetch has a pod in the cluster get a URL, and returns the body.
func fetch(t *testing.T, namespace, url string) string {
	t.Helper()
	const name = "fetch"
	_, _ = tryKubectl(t.Context(), "", "delete", "pod", name, "-n", namespace, "--ignore-not-found", "--now")
	manifest := fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec:
  restartPolicy: Never
  containers:
  - name: fetch
    image: %s
    args: [get, %q]
`, name, namespace, env.images[images.Hello], url)
	kubectl(t, manifest, "apply", "-f", "-")
	eventually(t, "pod "+namespace+"/"+name+" gets "+url, func(ctx context.Context) error {
		var pod corev1.Pod
		if err := env.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod); err != nil {
			return err
		}
		if pod.Status.Phase == corev1.PodFailed {
			log, _ := tryKubectl(ctx, "", "logs", name, "-n", namespace)
			t.Fatalf("%s failed: %s", url, log)
		}
		if pod.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("phase %s", pod.Status.Phase)
		}
		return nil
	})
	body := kubectl(t, "", "logs", name, "-n", namespace)
	kubectl(t, "", "delete", "pod", name, "-n", namespace, "--now")
	return body
}

var errNotYet = errors.New("not yet")
