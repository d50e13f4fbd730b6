// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/internal/chartgen/rbac"
	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/harness"
)

// grantingChart has what takes more rights than its objects: hooks, lookups, CRDs, and roles that pass rights on.
func grantingChart(group string) map[string]string {
	return with(map[string]string{
		"values.yaml": "message: hello\nreplicas: 0\nbig: 1\nroles: {create: false}\n",
		"crds/widgets.yaml": fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgetry.%[1]s}
spec:
  group: %[1]s
  names: {kind: Widget, listKind: WidgetList, plural: widgetry, singular: widget}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, group),
		"templates/widget.yaml": "apiVersion: " + group + "/v1\nkind: Widget\nmetadata: {name: {{ .Release.Name }}}\nspec: {message: {{ .Values.message | quote }}}\n",
		"templates/lookup.yaml": `{{- $ca := lookup "v1" "Endpoints" "default" "kubernetes" }}
{{- $classes := lookup "storage.k8s.io/v1" "StorageClass" "" "" }}
apiVersion: v1
kind: ServiceAccount
metadata: {name: {{ .Release.Name }}, annotations: {classes: "{{ len $classes.items }}", found: "{{ not (not $ca) }}"}}
`,
		"templates/hook.yaml": `apiVersion: v1
kind: LimitRange
metadata:
  name: {{ .Release.Name }}-hook
  annotations: {helm.sh/hook: "pre-install,pre-upgrade,post-delete", helm.sh/hook-delete-policy: "before-hook-creation,hook-succeeded"}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-hook
  annotations: {helm.sh/hook: post-install, helm.sh/hook-delete-policy: "hook-succeeded"}
spec:
  suspend: true
  template: {spec: {restartPolicy: Never, containers: [{name: app, image: "registry.test/app:1"}]}}
`,
		"templates/roles.yaml": `{{- if .Values.roles.create }}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: {{ .Release.Name }}}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, update], resourceNames: [{{ .Release.Name }}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: {{ .Release.Name }}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ .Release.Name }}}
subjects: [{kind: ServiceAccount, name: {{ .Release.Name }}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: {{ .Release.Name }}-view}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: {{ .Release.Name }}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: {{ .Release.Namespace }}-{{ .Release.Name }}}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [list]}
- {nonResourceURLs: [/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: {{ .Release.Namespace }}-{{ .Release.Name }}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:auth-delegator}
subjects: [{kind: ServiceAccount, name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}]
{{- end }}
`,
	})
}

// userWith returns a user who has the rules of the files in the whole cluster, until the end of the test.
func userWith(e *harness.Env, files []rbac.File) string {
	e.Helper()
	user := harness.Name("operator-")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}}
	for _, f := range files {
		var part rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(f.Content, &part); err != nil {
			e.Fatal(err)
		}
		role.Rules = append(role.Rules, part.Rules...)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: []rbacv1.Subject{{Kind: "User", Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
	}
	for _, obj := range []client.Object{role, binding} {
		if err := e.Client.Create(e.Ctx, obj); err != nil {
			e.Fatal(err)
		}
		e.Cleanup(func() { _ = e.Client.Delete(context.WithoutCancel(e.Ctx), obj) })
	}
	return user
}

// A chart releases with just the rules that are worked out from it.
func TestChartReleasesWithTheRulesWorkedOut(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("granting", grantingChart(harness.Name("granting")+".test.dev")))
	watches := filepath.Join(t.TempDir(), "watches.yaml")
	e.WriteFile(watches, harness.Watches(k))
	kinds := rbac.NewKinds()
	if err := kinds.Add(fmt.Sprintf("%s.%s=%s", k.Kind, k.Group, k.Resource())); err != nil {
		t.Fatal(err)
	}
	files, messages, err := rbac.Input{Kinds: kinds}.Watches(watches)
	if err != nil || len(messages) > 0 {
		t.Fatalf("error %v, messages %v", err, messages)
	}
	user := userWith(e, files)
	cfg, err := e.Cluster.User(user)
	if err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches, Config: cfg})
	k.Create("one", map[string]any{"roles": map[string]any{"create": true}})
	completeJob(t, e, "one-hook")
	k.WaitReady("one")
	if a := e.Object("v1", "ServiceAccount", "one").GetAnnotations(); a["classes"] == "" {
		t.Errorf("annotations: %v", a)
	}
	patch(t, e, "rbac.authorization.k8s.io/v1", "Role", "one", `{"rules":[]}`)
	k.Patch("one", `{"spec":{"message":"second"}}`)
	k.WaitReady("one")
	waitHistory(e, "one", "1:superseded 2:deployed")
	k.Patch("one", `{"spec":{"roles":{"create":false}}}`)
	k.WaitReady("one")
	e.WaitObjectGone("rbac.authorization.k8s.io/v1", "ClusterRole", e.Namespace+"-one")
	k.Delete("one")
	e.WaitObjectGone("batch/v1", "Job", "one-hook")
	events, err := e.Cluster.AuditEvents(e.Ctx, controlplane.ByUser(user), controlplane.Since(since), forbidden)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events {
		t.Errorf("forbidden: %s %s", rightOf(ev), ev.RequestURI)
	}
}

// The table of kinds is what a real API server says.
func TestKindsAreServedAsChartgenHasThem(t *testing.T) {
	e := sideBySide(t)
	kinds := rbac.NewKinds()
	_, lists, err := e.Kube.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(gv.Group, ".dev") || gv.Group == serviceMonitors { // kinds of tests
			continue
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "create") {
				continue
			}
			got, ok := kinds.Resource(schema.GroupKind{Group: gv.Group, Kind: r.Kind})
			if !ok || got.Resource != r.Name || got.Cluster == r.Namespaced {
				t.Errorf("%s %s is served as %s, namespaced %v; chartgen has %+v, %v", gv, r.Kind, r.Name, r.Namespaced, got, ok)
			}
			seen++
		}
	}
	if seen < 40 {
		t.Errorf("%d kinds were looked at", seen)
	}
}
