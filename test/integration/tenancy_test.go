// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/test/chartserver"
	"github.com/chartgate/chartgate/test/harness"
)

// tenant is somebody who may edit one namespace, and a neighbor with things of their own.
type tenant struct {
	*chosen
	*tenancy
	user   string
	victim *harness.Env
}

// startTenant starts an operator of HelmApps and Microservices that has rights in the whole
// cluster, for a tenant who may edit the test's namespace as ServiceAccount robot.
func startTenant(t *testing.T) *tenant {
	t.Helper()
	e := sideBySide(t)
	c := chosenKinds(e)
	victim := harness.New(t)
	createSecret(victim, "treasure", map[string]string{"key": "tr3asure"})
	createConfigMap(victim, "notes", map[string]string{"text": "tr3asure"})
	ten := &tenant{chosen: c, victim: victim, user: account(e, "robot")}
	bind(e, e.Namespace, "robot", "edit")
	account(victim, "admin")
	bind(victim, victim.Namespace, "admin", "admin")
	operator := userWith(e, operatorRules(e, c.apps, c.services))
	ten.tenancy = startAs(e, operator, harness.ManagerOptions{Watches: chosenWatches, Namespaces: []string{e.Namespace}, Args: chosenArgs})
	return ten
}

// wantNothingGained fails the test for everything that was done for the tenant beyond their
// namespace, or that the operator did by itself.
func (ten *tenant) wantNothingGained() {
	t := ten.tenancy.Env
	t.Helper()
	refused := 0
	for _, r := range ten.requests(ten.since) {
		if actor(r) == ten.operator || r.ObjectRef.Resource == "" {
			continue
		}
		if actor(r) != ten.user && actor(r) != "system:serviceaccount:"+ten.tenancy.Namespace+":default" {
			t.Errorf("%s %s was made as %s", r.Verb, r.RequestURI, actor(r))
		}
		if r.ResponseStatus.Code == http.StatusForbidden {
			refused++
		} else if r.ObjectRef.Namespace != ten.tenancy.Namespace {
			t.Errorf("%s %s was answered with %d", r.Verb, r.RequestURI, r.ResponseStatus.Code)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
	ten.wantOwnRequests(ten.apps, ten.services)
	secrets, err := t.Kube.CoreV1().Secrets(ten.victim.Namespace).List(t.Ctx, metav1.ListOptions{})
	if err != nil || len(secrets.Items) != 1 {
		t.Errorf("the neighbor has %d Secrets, error %v", len(secrets.Items), err)
	}
}

// manifest of a Microservice that acts as robot.
func manifest(text string) map[string]any {
	spec := serviceAccount("robot")
	spec["resources"] = text
	return spec
}

// harmless is an object that the tenant may make, before one that they may not.
const harmless = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\n---\n"

// What a Microservice makes beyond its tenant's rights is refused, said plainly, and leaves nothing behind.
func TestMicroserviceGivesNobodyMoreRights(t *testing.T) {
	ten := startTenant(t)
	e, victim := ten.tenancy.Env, ten.victim.Namespace
	const cm = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: planted, namespace: %s}\n"
	job := "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: planted\n  namespace: %s\n  annotations: {helm.sh/hook: %s}\n" +
		"spec: {template: {spec: {restartPolicy: Never, serviceAccountName: admin, containers: [{name: a, image: registry.test/a}]}}}\n"
	for name, c := range map[string]struct {
		manifest string
		wants    []string
	}{
		"elsewhere": {fmt.Sprintf(cm, victim), []string{
			"robot may not create configmaps in namespace " + victim,
			"kubectl create role " + e.Namespace + "-robot-configmaps -n " + victim, "--serviceaccount=" + e.Namespace + ":robot",
		}},
		"system":   {fmt.Sprintf(cm, "kube-system"), []string{"robot may not create configmaps in namespace kube-system"}},
		"prehook":  {fmt.Sprintf(job, victim, "pre-install"), []string{"robot may not delete jobs.batch in namespace " + victim}},
		"posthook": {fmt.Sprintf(job, victim, "post-install"), []string{"robot may not delete jobs.batch in namespace " + victim}},
		"clusterrole": {
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: planted-" + e.Namespace + "}\nrules: [{apiGroups: [\"*\"], resources: [\"*\"], verbs: [\"*\"]}]\n",
			[]string{"robot may not create clusterroles.rbac.authorization.k8s.io in the whole cluster", "kubectl create clusterrolebinding"},
		},
		"binding": {
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: planted-" + e.Namespace + "}\n" +
				"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\nsubjects: [{kind: ServiceAccount, name: robot, namespace: " + e.Namespace + "}]\n",
			[]string{"robot may not create clusterrolebindings.rbac.authorization.k8s.io in the whole cluster"},
		},
		"rolebinding": {
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: planted}\n" +
				"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\nsubjects: [{kind: ServiceAccount, name: robot}]\n",
			[]string{"robot may not create rolebindings.rbac.authorization.k8s.io in namespace " + e.Namespace},
		},
		"crd": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: planted.test.dev}\nspec:\n  group: test.dev\n  scope: Namespaced\n" +
				"  names: {kind: Planted, plural: planted}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n",
			[]string{"robot may not create customresourcedefinitions.apiextensions.k8s.io in the whole cluster"},
		},
		"lookup": {
			`{{- $s := lookup "v1" "Secret" "` + victim + `" "treasure" }}` + "\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: stolen}\ndata: {key: {{ $s.data | toJson | quote }}}\n",
			[]string{"robot may not get secrets in namespace " + victim, "--verb=get,list --resource=secrets"},
		},
		"lookups": {
			`{{- range (lookup "v1" "Secret" "" "").items }}` + "\n# {{ .metadata.name }}\n{{- end }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: stolen}\n",
			[]string{"robot may not list secrets in the whole cluster"},
		},
	} {
		ten.services.Create(name, manifest(harmless+c.manifest))
		st := ten.services.WaitCondition(name, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonForbidden)
		for _, want := range c.wants {
			if msg := harness.Condition(st, v1alpha1.ConditionReconciling).Message; !strings.Contains(msg, want) {
				t.Errorf("%s: the message lacks %q: %s", name, want, msg)
			}
		}
		if e.Object("v1", "ConfigMap", name) != nil || e.Statuses(name) != "" {
			t.Errorf("%s: something stays of what was refused: %q", name, e.Statuses(name))
		}
		if obj, _ := ten.services.Get(name); strings.Contains(fmt.Sprint(obj.Object["status"]), "tr3asure") {
			t.Errorf("%s: the status tells what it must not: %v", name, obj.Object["status"])
		}
	}
	for _, where := range []string{victim, "kube-system", e.Namespace} {
		for apiVersion, kind := range map[string]string{"v1": "ConfigMap", "batch/v1": "Job", "rbac.authorization.k8s.io/v1": "RoleBinding"} {
			if in(e, where).Object(apiVersion, kind, "planted") != nil {
				t.Errorf("%s planted is in namespace %s", kind, where)
			}
		}
	}
	ten.wantNothingGained()
}

// Roles that grant more than the ServiceAccount holds are refused by the API server itself.
func TestMicroserviceCannotGrantWhatItsServiceAccountLacks(t *testing.T) {
	ten := startTenant(t)
	e := ten.tenancy.Env
	bind(e, e.Namespace, "robot", "admin") // who may make roles
	for name, text := range map[string]string{
		"role":        "kind: Role\nmetadata: {name: planted}\nrules: [{apiGroups: [\"\"], resources: [nodes], verbs: [\"*\"]}]\n",
		"rolebinding": "kind: RoleBinding\nmetadata: {name: planted}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\nsubjects: [{kind: ServiceAccount, name: robot}]\n",
	} {
		ten.services.Create(name, manifest("apiVersion: rbac.authorization.k8s.io/v1\n"+text))
		st := ten.services.WaitCondition(name, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonForbidden)
		if !strings.Contains(st.Message, "attempting to grant RBAC permissions not currently held") {
			t.Errorf("%s: %s", name, st.Message)
		}
	}
	if e.Object("rbac.authorization.k8s.io/v1", "Role", "planted") != nil || e.Object("rbac.authorization.k8s.io/v1", "RoleBinding", "planted") != nil {
		t.Error("a role was made that grants more than its maker holds")
	}
	ten.wantNothingGained()
}

// Nobody is acted as but a ServiceAccount of the resource's own namespace, and never the operator.
func TestNobodyElseIsActedAs(t *testing.T) {
	ten := startTenant(t)
	e, victim := ten.tenancy.Env, ten.victim.Namespace
	for _, name := range []string{victim + ":admin", victim + "/admin", "system:serviceaccount:" + victim + ":admin", "Admin", "a b", "../admin"} {
		obj := ten.services.Named("named")
		obj.Object["spec"] = map[string]any{"resources": harmless, "release": map[string]any{"serviceAccountName": name}}
		if err := e.Client.Create(e.Ctx, obj); err == nil || !strings.Contains(err.Error(), "not a name of a ServiceAccount") {
			t.Errorf("ServiceAccount %q: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		spec  map[string]any
		wants string
	}{
		"neighbor": { // admin is the neighbor's
			map[string]any{"resources": harmless, "release": map[string]any{"serviceAccountName": "admin"}},
			"ServiceAccount admin does not exist in namespace " + e.Namespace,
		},
		"nobody": {map[string]any{"resources": harmless}, ":default may not list secrets in namespace " + e.Namespace},
	} {
		ten.services.Create(name, c.spec)
		st := ten.services.WaitCondition(name, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonForbidden)
		if !strings.Contains(st.Message, c.wants) {
			t.Errorf("%s: the message lacks %q: %s", name, c.wants, st.Message)
		}
		if e.Object("v1", "ConfigMap", name) != nil {
			t.Errorf("%s: released", name)
		}
		ten.services.Delete(name) // there is nothing that it could not be rid of
	}
}

// What a gate looks at, the ServiceAccount has to be allowed to read; and a gate stays at home.
func TestGatesReadAsTheServiceAccount(t *testing.T) {
	ten := startTenant(t)
	e, victim := ten.tenancy.Env, ten.victim.Namespace
	ref := func(namespace, name string) map[string]any {
		return map[string]any{"ref": map[string]any{"name": name, "namespace": namespace}}
	}
	spec := manifest(harmless)
	spec["gates"] = []any{
		gateOf("secret", v1alpha1.GateSecretExists, ref(victim, "treasure")),
		gateOf("notes", v1alpha1.GateConfigMapExists, ref(victim, "notes")),
		gateOf("node", v1alpha1.GateDependencyReady, map[string]any{"ref": map[string]any{"apiVersion": "v1", "kind": "Node", "name": "any"}}),
		gateOf("mine", v1alpha1.GateConfigMapExists, nil),
	}
	ten.services.Create("gated", spec)
	waitGate(ten.services, "gated", "secret", v1alpha1.VerdictWaiting, gate.ReasonReferenceNotAllowed)
	waitGate(ten.services, "gated", "notes", v1alpha1.VerdictWaiting, gate.ReasonReferenceNotAllowed)
	waitGate(ten.services, "gated", "node", v1alpha1.VerdictWaiting, gate.ReasonReferenceNotAllowed)
	createConfigMap(e, "mine", nil)
	waitGate(ten.services, "gated", "mine", v1alpha1.VerdictPassed, gate.ReasonConfigMapFound)

	// A target makes a namespace a home, but gives no right to read there.
	charts := shops(t, []string{e.Namespace}, "1.0.0")
	app := serviceAccount("robot")
	app["chart"], app["targetNamespace"] = shop(charts.URL, "1.0.0"), victim
	app["gates"] = []any{gateOf("treasure", v1alpha1.GateSecretExists, nil)}
	ten.apps.Create("shop", app)
	st := ten.apps.WaitCondition("shop", v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonForbidden)
	if !strings.Contains(st.Message, "robot may not list secrets in namespace "+victim) || strings.Contains(fmt.Sprint(st.Gates), "Found") {
		t.Errorf("gates %v, message %s", st.Gates, st.Message)
	}
	ten.wantNothingGained()
}

// A HelmApp's chart gives its tenant no more rights than a Microservice's manifests.
func TestHelmAppGivesNobodyMoreRights(t *testing.T) {
	ten := startTenant(t)
	e, victim := ten.tenancy.Env, ten.victim.Namespace
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: planted.helm.test.dev}\nspec:\n  group: helm.test.dev\n  scope: Namespaced\n" +
		"  names: {kind: Planted, plural: planted}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n"
	charts := chartserver.NewRepository(t)
	for name, files := range map[string]map[string]string{
		"crds":  {"crds/planted.yaml": crd, "templates/cm.yaml": harmless},
		"roles": {"templates/role.yaml": harmless + "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: planted-" + e.Namespace + "}\nrules: []\n"},
		"plain": {"templates/cm.yaml": harmless},
	} {
		charts.File(t, name+"-1.0.0.tgz", chartserver.PackFiles(t, name, "1.0.0", files))
	}
	charts.Index(t)
	ten.secret("charts", chartserver.CASecret(charts.Server, nil))
	for name, c := range map[string]struct {
		chart, target string
		wants         string
	}{
		"crds":   {chart: "crds", wants: "robot may not get customresourcedefinitions.apiextensions.k8s.io in the whole cluster"},
		"roles":  {chart: "roles", wants: "robot may not create clusterroles.rbac.authorization.k8s.io in the whole cluster"},
		"target": {chart: "plain", target: victim, wants: "robot may not list secrets in namespace " + victim},
		"system": {chart: "plain", target: "kube-system", wants: "robot may not list secrets in namespace kube-system"},
	} {
		spec := serviceAccount("robot")
		spec["chart"] = map[string]any{"repository": charts.URL, "name": c.chart, "version": "1.0.0", "secretRef": map[string]any{"name": "charts"}}
		if c.target != "" {
			spec["targetNamespace"] = c.target
		}
		ten.apps.Create(name, spec)
		st := ten.apps.WaitCondition(name, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonForbidden)
		if !strings.Contains(st.Message, c.wants) {
			t.Errorf("%s: the message lacks %q: %s", name, c.wants, st.Message)
		}
		for _, where := range []string{e.Namespace, victim, "kube-system"} {
			if in(e, where).Object("v1", "ConfigMap", name) != nil || in(e, where).Statuses(name) != "" {
				t.Errorf("%s: something stays in namespace %s", name, where)
			}
		}
	}
	if e.Object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "planted.helm.test.dev") != nil {
		t.Error("a CRD was made")
	}
	ten.wantNothingGained()

	// What the tenant may do, works: so does a chart whose CRDs somebody else installed.
	file := filepath.Join(t.TempDir(), "crd.yaml")
	e.WriteFile(file, crd)
	e.Kubectl("create", "-f", file)
	e.Cleanup(func() { kubectlQuietly(e, "delete", "crd", "planted.helm.test.dev", "--wait=false") })
	e.Kubectl("wait", "--for=condition=Established", "crd/planted.helm.test.dev")
	for _, chart := range []string{"plain", "crds"} {
		spec := serviceAccount("robot")
		spec["chart"] = map[string]any{"repository": charts.URL, "name": chart, "version": "1.0.0", "secretRef": map[string]any{"name": "charts"}}
		ten.apps.Create("may-"+chart, spec)
		ten.apps.WaitReady("may-" + chart)
		ten.apps.Delete("may-" + chart)
	}
}

// What is stored of a release, and could be written by anybody with a Secret to edit, or a status
// to patch, leads the operator nowhere.
func TestStatusDoesNotSayWhereTheOperatorWrites(t *testing.T) {
	e := sideBySide(t)
	victim := harness.New(t)
	k := e.GatedKind(e.Chart("one", configChart))
	obj := k.Create("one", nil)
	obj.Object["status"] = map[string]any{"releaseNamespace": victim.Namespace, "releaseName": "one", "revision": int64(1)}
	if err := e.Client.Status().Update(e.Ctx, obj); err != nil {
		t.Fatal(err)
	}
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	if st := k.WaitReady("one"); st.ReleaseNamespace != e.Namespace {
		t.Errorf("released in %s", st.ReleaseNamespace)
	}
	e.WantHistory("one", "1:deployed")
	victim.WantHistory("one", "")
	if victim.Object("v1", "ConfigMap", "one") != nil {
		t.Error("the status said where the operator writes")
	}
}

// The samples have the rights that they need in them.
func TestSamplesOfTenantsSuffice(t *testing.T) {
	e := sideBySide(t)
	c := chosenKinds(e)
	operator := userWith(e, operatorRules(e, c.apps, c.services))
	ten := startAs(e, operator, harness.ManagerOptions{Watches: chosenWatches, Namespaces: []string{e.Namespace}, Args: chosenArgs})
	charts := chartserver.NewRepository(t)
	charts.File(t, "podinfo-6.5.1.tgz", chartserver.PackFiles(t, "podinfo", "6.5.1", smallChart))
	charts.Index(t)
	c.secret("charts", chartserver.CASecret(charts.Server, nil))
	for _, o := range e.Sample("apps_v1alpha1_helmapp.yaml", "apps_v1alpha1_microservice.yaml") {
		if o.GetKind() == v1alpha1.KindHelmApp { // its repository is on this machine here
			chart := o.Object["spec"].(map[string]any)["chart"].(map[string]any)
			chart["repository"], chart["secretRef"] = charts.URL, map[string]any{"name": "charts"}
		}
		if err := e.Client.Create(e.Ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	c.apps.WaitReady("helmapp-sample")
	c.services.WaitReady("microservice-sample")
	c.apps.Delete("helmapp-sample")
	c.services.Delete("microservice-sample")
	e.WaitObjectGone("apps/v1", "Deployment", "microservice-sample")
	ten.wantOwnRequests(c.apps, c.services)
}
