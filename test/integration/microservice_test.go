// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// ordersManifests are what a Microservice classically holds: a Deployment and a Service in one string.
const ordersManifests = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: orders
spec:
  replicas: 1
  selector:
    matchLabels: {app: orders}
  template:
    metadata:
      labels: {app: orders}
    spec:
      containers:
      - name: web
        image: registry.test/orders:1
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  selector: {app: orders}
  ports:
  - port: 80
`

func TestMicroserviceLifecycle(t *testing.T) {
	c := serveChosen(t)
	c.services.Create("orders", map[string]any{"resources": ordersManifests})
	st := c.services.WaitReady("orders")
	if st.Phase != v1alpha1.PhaseDeployed || st.Chart != "orders" || st.LastDeployedVersion != "0.0.0" || st.Revision != 1 {
		t.Errorf("status: %+v", st)
	}
	for kind, apiVersion := range map[string]string{"Deployment": "apps/v1", "Service": "v1"} {
		if c.Object(apiVersion, kind, "orders") == nil {
			t.Errorf("there is no %s", kind)
		}
	}
	c.setResources("orders", strings.ReplaceAll(ordersManifests, "port: 80", "port: 8080"))
	c.services.WaitReady("orders")
	c.WantHistory("orders", "1:superseded 2:deployed")
	if out := c.Helm("history", "orders"); strings.Count(out, "orders-0.0.0") != 2 || !strings.Contains(out, "superseded") {
		t.Errorf("helm history says:\n%s", out)
	}
	c.services.Delete("orders")
	c.WaitObjectGone("v1", "Service", "orders")
	c.WaitObjectGone("apps/v1", "Deployment", "orders")
	c.WantHistory("orders", "")
}

func TestMicroserviceKeepsWhatIsReleasedOnBadManifests(t *testing.T) {
	c := serveChosen(t)
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {a: b}\n"
	c.services.Create("one", map[string]any{"resources": config})
	c.services.WaitReady("one")
	cases := map[string]struct{ resources, reason, message string }{
		"no YAML":          {"apiVersion: v1\nkind: [ConfigMap\n", v1alpha1.ReasonInvalidResources, "document 1"},
		"nothing":          {"# nothing\n---\n", v1alpha1.ReasonInvalidResources, "there is no manifest in it"},
		"an object twice":  {config + "---\n" + config, v1alpha1.ReasonInvalidResources, "ConfigMap one"},
		"a list":           {"- a\n- b\n", v1alpha1.ReasonInvalidResources, "list"},
		"a bad directive":  {"{{ if }}\n" + config, v1alpha1.ReasonInvalidResources, "line 1"},
		"no such function": {"{{ nosuch }}\n" + config, v1alpha1.ReasonRenderFailed, "nosuch"},
	}
	for name, tc := range cases {
		c.setResources("one", tc.resources)
		st := c.services.WaitCondition("one", v1alpha1.ConditionStalled, metav1.ConditionTrue, tc.reason)
		if !strings.Contains(st.Message, tc.message) || st.Revision != 1 {
			t.Errorf("%s: revision %d, message %q", name, st.Revision, st.Message)
		}
		deleteConfigMap(c.Env, "one") // what is released is kept up
		c.WaitObject("v1", "ConfigMap", "one", nil)
		c.WantHistory("one", "1:deployed")
	}
	c.setResources("one", config)
	c.services.WaitReady("one")
	c.WantHistory("one", "1:deployed")
}

// setResources gives a Microservice other manifests.
func (c *chosen) setResources(name, manifests string) {
	c.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"resources": manifests}})
	if err != nil {
		c.Fatal(err)
	}
	c.services.Patch(name, string(patch))
}
