// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// secretsOf answers lookups: it is a cluster of Secrets, by name.
type secretsOf map[string]*unstructured.Unstructured

// GetClientFor implements engine.ClientProvider.
func (s secretsOf) GetClientFor(_, _ string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return secretReader{secrets: s}, true, nil
}

type secretReader struct {
	dynamic.NamespaceableResourceInterface
	secrets secretsOf
}

func (r secretReader) Namespace(string) dynamic.ResourceInterface { return r }

func (r secretReader) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	if found := r.secrets[name]; found != nil {
		return found, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

func TestCredentialsAreMadeOnce(t *testing.T) {
	values := mustTranslate(t, database(t, "shop", `{}`))
	secret := func(data map[string]any) secretsOf {
		return secretsOf{"shop-credentials": {Object: map[string]any{"data": data}}}
	}
	render := func(cluster secretsOf) map[string]string {
		t.Helper()
		text, err := manifestsOn(cluster, values)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for k, v := range got.secrets["shop-credentials"].Data {
			out[k] = string(v)
		}
		return out
	}
	want := map[string]string{"username": "ann", "password": "s3cret"}
	if diff := cmp.Diff(want, render(secret(map[string]any{"username": "YW5u", "password": "czNjcmV0", "other": "eA=="}))); diff != "" {
		t.Error("what is there is not what is rendered: " + diff)
	}
	if got := render(secret(map[string]any{"username": "YW5u"})); got["username"] != "ann" || len(got["password"]) != 32 {
		t.Errorf("a Secret without a password: %v", got)
	}
	if got := render(secretsOf{"shop-credentials": {Object: map[string]any{}}}); got["username"] != "admin" || len(got["password"]) != 32 {
		t.Errorf("a Secret without data: %v", got)
	}
}

func TestServiceMonitorOnlyWhereThereIsThatKind(t *testing.T) {
	values := mustTranslate(t, database(t, "shop", `{monitoring: {enabled: true}}`))
	if got := mustRender(t, values); len(got.others) != 0 {
		t.Errorf("objects: %v", got.others)
	}
	got := mustRender(t, values, "monitoring.coreos.com/v1", "monitoring.coreos.com/v1/ServiceMonitor")
	monitor := got.others["ServiceMonitor shop"]
	if monitor == nil {
		t.Fatal("no ServiceMonitor")
	}
	selector, _, _ := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
	for k, v := range selector {
		if have := got.services["shop-metrics"].Labels[k]; have != v {
			t.Errorf("label %s of the service is %q, selected is %q", k, have, v)
		}
	}
	if len(selector) == 0 {
		t.Error("it selects all services")
	}
}
