// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tests the operator against a real API server, with real
// controllers and simulated nodes. Each test has a namespace, kinds and an
// operator of its own.
package integration

import (
	"flag"
	"os"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/harness"
)

// atOnce is how many tests run side by side where the command line says nothing else. They wait for
// most of their time: more than the machine has processors keep it busy.
const atOnce = "8"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	ctrl.SetLogger(harness.Logger())
	os.Exit(controlplane.Main(m, controlplane.Options{Controllers: true, Nodes: 1, AuditLog: true}))
}

// sideBySide returns the environment of a test that runs beside others: it
// changes nothing that another test of this package looks at.
func sideBySide(t *testing.T) *harness.Env {
	t.Helper()
	t.Parallel()
	return harness.New(t)
}

// smallChart is a chart of a Deployment, a Service and a ConfigMap.
var smallChart = map[string]string{
	"values.yaml": `replicas: 1
message: hello
big: 1000000
`,
	"templates/all.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  message: {{ .Values.message | quote }}
  big: "{{ .Values.big }}"
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  selector: {app: {{ .Release.Name }}}
  ports: [{name: http, port: 80}]
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec:
      containers:
      - name: app
        image: registry.test/app:1
`,
	"templates/NOTES.txt": "The password is {{ .Values.message }}.\n",
}
