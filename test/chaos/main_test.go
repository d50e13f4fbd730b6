// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chaos kills the operator, and takes the API server away from it, at
// every point of a release's life, and wants the next operator to end where an
// undisturbed one does. The operator is a real process, and a proxy between it
// and a real API server chooses the moment.
package chaos

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/harness"
)

const (
	// busy is how many points use the machine at a time.
	busy = 4
	// parallel is how many tests run at a time; those above busy only wait.
	parallel = "12"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(harness.Logger())
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", parallel); err != nil {
			panic(err)
		}
	}
	os.Exit(controlplane.Main(m, controlplane.Options{Controllers: true, Nodes: 1}))
}

// slots bounds how many points are busy at a time.
var slots = make(chan struct{}, busy)

// takeSlot waits for a slot. It is free again when the returned function is
// called, at the end of the test at the latest.
func takeSlot(t *testing.T) (free func()) {
	t.Helper()
	select {
	case slots <- struct{}{}:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
	free = sync.OnceFunc(func() { <-slots })
	t.Cleanup(free)
	return free
}

// progress tells people how far the package is.
var progress struct {
	sync.Mutex
	planned, done, failed int
	begin                 time.Time
}

// plan announces points.
func plan(points int) {
	progress.Lock()
	defer progress.Unlock()
	if progress.begin.IsZero() {
		progress.begin = time.Now()
	}
	progress.planned += points
}

// finish has the end of the test counted as the end of a point.
func finish(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		progress.Lock()
		defer progress.Unlock()
		progress.done++
		if t.Failed() {
			progress.failed++
		}
		_, _ = fmt.Fprintf(os.Stderr, "chaos: %d of %d points done, %d failed, %.0f s: %s\n",
			progress.done, progress.planned, progress.failed, time.Since(progress.begin).Seconds(), t.Name())
	})
}

// chart has an object that a namespace cannot own, one that exists only with
// extra set, and one that exists only with old set. The message is in all. Its
// Deployment asks for no Pods, so that it is ready whatever becomes of nodes.
var chart = map[string]string{
	"values.yaml": `message: hello
replicas: 0
extra: false
old: false
hook: ""
`,
	"templates/all.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  message: {{ .Values.message }}
{{- if .Values.extra }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-extra
data:
  message: {{ .Values.message }}
{{- end }}
{{- if .Values.old }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-old
data:
  message: {{ .Values.message }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .Release.Namespace }}-{{ .Release.Name }}
rules:
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ .Values.message }}]
  verbs: [get]
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  selector: {app: {{ .Release.Name }}, message: {{ .Values.message }}}
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
    metadata:
      labels: {app: {{ .Release.Name }}, message: {{ .Values.message }}}
    spec:
      containers:
      - name: app
        image: registry.test/app:1
`,
	// The hook does not end before somebody takes suspend away.
	"templates/hook.yaml": `{{- if .Values.hook }}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-hook
  annotations:
    helm.sh/hook: {{ .Values.hook }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: hook
        image: registry.test/hook:1
{{- end }}
`,
}

// newKind makes a kind of the chart for a test and the tests in it.
func newKind(t *testing.T) *harness.Kind {
	t.Helper()
	e := harness.New(t)
	return e.GatedKind(e.Chart("small", chart))
}
