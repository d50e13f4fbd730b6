// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/test/e2e/images"
)

// resource is a resource of a typed kind.
type resource struct{ kind, namespace, name string }

func (r resource) read(ctx context.Context) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: apiGroup, Version: "v1alpha1", Kind: r.kind})
	return obj, env.client.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: r.name}, obj)
}

func (r resource) waitFor(t *testing.T, what string, check func(status map[string]any) error) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s %s/%s %s", r.kind, r.namespace, r.name, what), func(ctx context.Context) error {
		obj, err := r.read(ctx)
		if err != nil {
			return err
		}
		status, _, _ := unstructured.NestedMap(obj.Object, "status")
		if err := check(status); err != nil {
			return fmt.Errorf("%w; phase %v: %v", err, status["phase"], status["message"])
		}
		return nil
	})
}

// waitRunning waits until the resource's newest revision is the one given, and all that it asks for runs.
func (r resource) waitRunning(t *testing.T, revision int64) {
	t.Helper()
	r.waitFor(t, fmt.Sprintf("runs at revision %d", revision), func(status map[string]any) error {
		if status["phase"] != "Running" || status["revision"] != revision {
			return fmt.Errorf("revision %v", status["revision"])
		}
		return nil
	})
}

func (r resource) patch(t *testing.T, patch string) {
	t.Helper()
	kubectl(t, "", "patch", r.kind, r.name, "-n", r.namespace, "--type=merge", "-p", patch)
}

func (r resource) delete(t *testing.T) {
	t.Helper()
	kubectl(t, "", "delete", r.kind, r.name, "-n", r.namespace, "--timeout=3m")
}

// webAppAnswers takes a WebApp of the tests' image from nothing to an answer over its Service, through a
// change of its configuration and away.
func webAppAnswers(t *testing.T) {
	web := resource{"WebApp", makeNamespace(t, "team-web"), "web"}
	kubectl(t, fmt.Sprintf(`
apiVersion: apps.chartgate.dev/v1alpha1
kind: WebApp
metadata: {name: web, namespace: %s}
spec:
  image: %s
  replicas: 2
  port: 8080
  config: {PORT: "8080", OTHER: x, GREETING: "a $(OTHER) b $$(OTHER) c $$"}
  ingress: {enabled: true, host: web.example.test}
`, web.namespace, env.images[images.Hello]), "apply", "-f", "-")
	web.waitRunning(t, 1)
	if body := fetch(t, web.namespace, "http://web:8080/env/GREETING"); body != "a $(OTHER) b $$(OTHER) c $$\n" {
		t.Errorf("the configuration arrives as %q", body)
	}
	var ingress networkingv1.Ingress
	must(t, env.client.Get(t.Context(), client.ObjectKey{Namespace: web.namespace, Name: web.name}, &ingress))
	if rules := ingress.Spec.Rules; len(rules) != 1 || rules[0].Host != "web.example.test" || rules[0].HTTP.Paths[0].Backend.Service.Name != "web" {
		t.Errorf("the Ingress has the rules %+v", rules)
	}

	before := pods(t, web.namespace)
	web.patch(t, `{"spec":{"config":{"GREETING":"hi","ADDED":"y"}}}`)
	web.waitRunning(t, 2)
	if body := fetch(t, web.namespace, "http://web:8080/env/GREETING"); body != "hi\n" {
		t.Errorf("the new configuration arrives as %q", body)
	}
	for name := range pods(t, web.namespace) {
		if _, old := before[name]; old {
			t.Errorf("pod %s still has the former configuration", name)
		}
	}
	var sets appsv1.ReplicaSetList
	must(t, env.client.List(t.Context(), &sets, client.InNamespace(web.namespace)))
	if len(sets.Items) != 2 {
		t.Errorf("%d ReplicaSets for one rollout", len(sets.Items))
	}

	kubectl(t, "", "scale", "webapp", "web", "-n", web.namespace, "--replicas=1")
	web.waitFor(t, "is scaled", func(status map[string]any) error {
		if status["phase"] != "Running" || status["replicas"] != int64(1) {
			return fmt.Errorf("%v replicas", status["replicas"])
		}
		return nil
	})
	if history := helm(t, "history", "web", "-n", web.namespace); strings.Count(history, "\n") != 3 {
		t.Errorf("scaling made a revision:\n%s", history)
	}
	web.delete(t)
	eventually(t, "nothing of the WebApp is left", func(ctx context.Context) error {
		var left corev1.PodList
		if err := env.client.List(ctx, &left, client.InNamespace(web.namespace)); err != nil || len(left.Items) > 0 {
			return fmt.Errorf("%d pods, %w", len(left.Items), err)
		}
		if left := releases(ctx, t, web.namespace); len(left) > 0 {
			return fmt.Errorf("release Secrets: %v", left)
		}
		return gone(ctx, &networkingv1.Ingress{}, web.namespace, web.name)
	})
}
