// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/repo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"

	"github.com/chartgate/chartgate/test/chartserver"
	"github.com/chartgate/chartgate/test/e2e/images"
)

func (r resource) waitCondition(t *testing.T, conditionType, want, reason string) string {
	t.Helper()
	message := ""
	r.waitFor(t, fmt.Sprintf("is %s=%s (%s)", conditionType, want, reason), func(status map[string]any) error {
		conditions, _ := status["conditions"].([]any)
		for _, item := range conditions {
			c, _ := item.(map[string]any)
			if c["type"] == conditionType && c["status"] == want && (reason == "" || c["reason"] == reason) {
				message, _ = c["message"].(string)
				return nil
			}
		}
		return errNotYet
	})
	return message
}

// teamsActAsThemselves releases what a team wrote, and a chart that it chose, with the rights that
// the team has, and with no others.
func teamsActAsThemselves(t *testing.T) {
	namespace, target := makeNamespace(t, "team-c"), makeNamespace(t, "team-c-prod")
	service := resource{"Microservice", namespace, "svc"}
	kubectl(t, fmt.Sprintf(`
apiVersion: apps.chartgate.dev/v1alpha1
kind: Microservice
metadata: {name: svc, namespace: %s}
spec:
  resources: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: {{ .Release.Name }}}
    spec:
      selector: {matchLabels: {app: svc}}
      template:
        metadata: {labels: {app: svc}}
        spec:
          containers:
          - {name: web, image: %q, env: [{name: PORT, value: "8080"}, {name: GREETING, value: hi}]}
    ---
    apiVersion: v1
    kind: Service
    metadata: {name: {{ .Release.Name }}}
    spec: {selector: {app: svc}, ports: [{port: 80, targetPort: 8080}]}
`, namespace, env.images[images.Hello]), "apply", "-f", "-")
	message := service.waitCondition(t, "Ready", "False", "Forbidden")
	if want := "--serviceaccount=" + namespace + ":default"; !strings.Contains(message, want) {
		t.Errorf("the condition has no command with %s: %s", want, message)
	}
	for _, ns := range []string{namespace, target} {
		kubectl(t, "", "create", "rolebinding", "team", "-n", ns, "--clusterrole=edit", "--serviceaccount="+namespace+":default")
	}
	service.waitCondition(t, "Ready", "True", "")
	if body := fetch(t, namespace, "http://svc/env/GREETING"); body != "hi\n" {
		t.Errorf("the Microservice answers %q", body)
	}

	serveCharts(t, namespace)
	app := resource{"HelmApp", namespace, "shop"}
	kubectl(t, fmt.Sprintf(`
apiVersion: apps.chartgate.dev/v1alpha1
kind: HelmApp
metadata: {name: shop, namespace: %[1]s}
spec:
  chart:
    repository: https://charts.%[1]s.svc:8443
    name: shop
    version: ^1.0
    secretRef: {name: charts-ca}
  targetNamespace: %[2]s
  values: {message: from the team}
`, namespace, target), "apply", "-f", "-")
	app.waitCondition(t, "Ready", "True", "")
	app.waitFor(t, "tells of version 1.1.0", func(status map[string]any) error {
		if status["lastDeployedVersion"] != "1.1.0" {
			return fmt.Errorf("version %v", status["lastDeployedVersion"])
		}
		return nil
	})
	if got := kubectl(t, "", "get", "configmap", "shop", "-n", target, "-o", "jsonpath={.data.message}"); got != "from the team" {
		t.Errorf("the chart was released with message %q", got)
	}
	if history := helm(t, "history", "shop", "-n", target); !strings.Contains(history, "deployed") {
		t.Errorf("helm history:\n%s", history)
	}

	app.delete(t)
	service.delete(t)
	eventually(t, "nothing of both is left", func(ctx context.Context) error {
		for _, ns := range []string{namespace, target} {
			if left := releases(ctx, t, ns); len(left) > 0 {
				return fmt.Errorf("release Secrets: %v", left)
			}
		}
		return gone(ctx, &corev1.ConfigMap{}, target, "shop")
	})
}

// serveCharts serves a chart in two versions in the cluster, by HTTPS, and puts the authority into Secret charts-ca.
func serveCharts(t *testing.T, namespace string) {
	t.Helper()
	dir := t.TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("charts."+namespace+".svc", nil, nil)
	must(t, err)
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, data, 0o600))
		return path
	}
	crt, pem := write("tls.crt", certificate), write("tls.key", key)
	kubectl(t, "", "create", "secret", "tls", "charts-tls", "-n", namespace, "--cert="+crt, "--key="+pem)
	kubectl(t, "", "create", "secret", "generic", "charts-ca", "-n", namespace, "--from-file=ca.crt="+crt)

	charts := t.TempDir()
	for _, version := range []string{"1.0.0", "1.1.0"} {
		archive := chartserver.PackFiles(t, "shop", version, map[string]string{
			"templates/message.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {message: {{ .Values.message | quote }}}\n",
		})
		must(t, os.WriteFile(filepath.Join(charts, "shop-"+version+".tgz"), archive, 0o600))
	}
	index, err := repo.IndexDirectory(charts, "")
	must(t, err)
	must(t, index.WriteFile(filepath.Join(charts, "index.yaml"), 0o600))
	kubectl(t, "", "create", "configmap", "charts", "-n", namespace, "--from-file="+charts)
	kubectl(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: charts, namespace: %[1]s, labels: {app: charts}}
spec:
  containers:
  - name: charts
    image: %[2]s
    args: [files, --tls-cert, /tls/tls.crt, --tls-key, /tls/tls.key, /charts]
    env: [{name: PORT, value: "8443"}]
    volumeMounts: [{name: charts, mountPath: /charts}, {name: tls, mountPath: /tls}]
    readinessProbe: {tcpSocket: {port: 8443}, periodSeconds: 1}
  volumes:
  - {name: charts, configMap: {name: charts}}
  - {name: tls, secret: {secretName: charts-tls}}
---
apiVersion: v1
kind: Service
metadata: {name: charts, namespace: %[1]s}
spec: {selector: {app: charts}, ports: [{port: 8443}]}
`, namespace, env.images[images.Hello]), "apply", "-f", "-")
	kubectl(t, "", "wait", "--for=condition=Ready", "pod/charts", "-n", namespace, "--timeout=120s")
}
