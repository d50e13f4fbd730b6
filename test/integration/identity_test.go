// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/chartgen/rbac"
	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/harness"
)

// tenancy is an operator that holds no right to what charts make, and tenants with rights of their own.
type tenancy struct {
	*harness.Env
	operator string
	since    time.Time
}

// startForTenants starts an operator of the kinds with the rules that it needs for
// itself, and none of its charts': what charts make, tenants have to have the rights to.
func startForTenants(e *harness.Env, args []string, kinds ...*harness.Kind) *tenancy {
	e.Helper()
	user := userWith(e, operatorRules(e, kinds...))
	return startAs(e, user, harness.ManagerOptions{Watches: harness.Watches(kinds...), Args: args})
}

// startAs starts an operator as the user.
func startAs(e *harness.Env, user string, options harness.ManagerOptions) *tenancy {
	e.Helper()
	cfg, err := e.Cluster.User(user)
	if err != nil {
		e.Fatal(err)
	}
	ten := &tenancy{Env: e, operator: user, since: time.Now()}
	options.Config = cfg
	e.StartManager(options)
	return ten
}

// operatorRules are those of an operator of the kinds, without their charts'.
func operatorRules(e *harness.Env, kinds ...*harness.Kind) []rbac.File {
	e.Helper()
	served := rbac.NewKinds()
	var watched []rbac.Watched
	for _, k := range kinds {
		if err := served.Add(fmt.Sprintf("%s.%s=%s", k.Kind, k.Group, k.Resource())); err != nil {
			e.Fatal(err)
		}
		watched = append(watched, rbac.Watched{Kind: k.GroupKind()})
	}
	files, messages, err := rbac.Operator(watched, served)
	if err != nil || len(messages) > 0 {
		e.Fatalf("error %v, messages %v", err, messages)
	}
	return files
}

// account makes a ServiceAccount in the test's namespace and returns its user name.
func account(e *harness.Env, name string) string {
	e.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
	if err := e.Client.Create(e.Ctx, sa); err != nil {
		e.Fatal(err)
	}
	return "system:serviceaccount:" + e.Namespace + ":" + name
}

// bind gives the ServiceAccount of the test's namespace a ClusterRole in a namespace.
func bind(e *harness.Env, namespace, name, clusterRole string) *rbacv1.RoleBinding {
	e.Helper()
	b := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: harness.Name(name + "-")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: e.Namespace, Name: name}},
	}
	if err := e.Client.Create(e.Ctx, b); err != nil {
		e.Fatal(err)
	}
	return b
}

// role makes a Role in the test's namespace and binds it to the ServiceAccount.
func role(e *harness.Env, name string, rules ...rbacv1.PolicyRule) {
	e.Helper()
	r := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}, Rules: rules}
	b := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: e.Namespace, Name: name}},
	}
	for _, obj := range []client.Object{r, b} {
		if err := e.Client.Create(e.Ctx, obj); err != nil {
			e.Fatal(err)
		}
	}
}

// requests returns what the operator did in the test's namespace, by itself or for somebody.
func (ten *tenancy) requests(since time.Time, filters ...controlplane.AuditFilter) []controlplane.AuditEvent {
	ten.Helper()
	events, err := ten.Cluster.AuditEvents(ten.Ctx, append(filters, controlplane.ByUser(ten.operator), controlplane.Since(since))...)
	if err != nil {
		ten.Fatal(err)
	}
	return events
}

// actor is who a request was made as.
func actor(e controlplane.AuditEvent) string {
	if e.ImpersonatedUser != nil {
		return e.ImpersonatedUser.Username
	}
	return e.User.Username
}

// wantOwnRequests fails the test for each request that the operator made by itself to what is not its own.
func (ten *tenancy) wantOwnRequests(kinds ...*harness.Kind) {
	ten.Helper()
	own := []string{"events", "serviceaccounts", "namespaces", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"validatingwebhookconfigurations", "releaseapprovals", "leases", ""}
	for _, k := range kinds {
		own = append(own, k.Resource())
	}
	n := 0
	for _, r := range ten.requests(ten.since) {
		if actor(r) != ten.operator {
			n++
			continue
		}
		if !slices.Contains(own, r.ObjectRef.Resource) {
			ten.Errorf("the operator itself made the request %s %s", r.Verb, r.RequestURI)
		}
	}
	if n == 0 {
		ten.Error("nothing was done for anybody")
	}
}

// serviceAccount is the setting of a resource that names who serves it.
func serviceAccount(name string) map[string]any {
	return map[string]any{"release": map[string]any{"serviceAccountName": name}}
}

func TestResourceIsServedAsItsServiceAccount(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", smallChart))
	ten := startForTenants(e, []string{"--reconcile-period", "1s"}, k)
	user := account(e, "deployer")
	bind(e, e.Namespace, "deployer", "edit")

	k.Create("one", serviceAccount("deployer"))
	k.WaitReady("one")
	e.WantHistory("one", "1:deployed")
	patch(t, e, "v1", "ConfigMap", "one", `{"data":{"message":"edited"}}`)
	message(t, e, "one", "hello")
	k.Patch("one", `{"spec":{"message":"second"}}`)
	k.WaitReady("one")
	message(t, e, "one", "second")

	// Nothing happens, and nothing is asked.
	resync := func() {
		start := reconciles(t, k)
		e.Eventually("resyncs", func() error {
			if got := reconciles(t, k); got < start+3 {
				return fmt.Errorf("%d reconciles since %d", got, start)
			}
			return nil
		})
	}
	resync()
	since := time.Now()
	resync()
	for _, r := range ten.requests(since, controlplane.ByNamespace(e.Namespace)) {
		if r.Verb != "watch" && r.ObjectRef.Resource != "events" {
			t.Errorf("a resource that is idle makes the request %s %s as %s", r.Verb, r.RequestURI, actor(r))
		}
	}
	k.Delete("one")
	e.WaitObjectGone("v1", "ConfigMap", "one")
	e.WantHistory("one", "")

	ten.wantOwnRequests(k)
	did := map[string]bool{}
	for _, r := range ten.requests(ten.since) {
		if actor(r) == ten.operator {
			continue
		}
		if actor(r) != user {
			t.Errorf("%s %s was made as %s", r.Verb, r.RequestURI, actor(r))
		}
		if r.ObjectRef.Resource != "" && r.ObjectRef.Namespace != e.Namespace {
			t.Errorf("%s %s reaches beyond the ServiceAccount's namespace", r.Verb, r.RequestURI)
		}
		if groups := r.ImpersonatedUser.Groups; !slices.Contains(groups, "system:serviceaccounts:"+e.Namespace) || !slices.Contains(groups, "system:authenticated") {
			t.Errorf("groups %v", groups)
		}
		if forbidden(r) {
			t.Errorf("forbidden: %s %s", r.Verb, r.RequestURI)
		}
		did[rightOf(r)] = true
	}
	for _, right := range []string{"create secrets", "delete secrets", "create configmaps", "patch configmaps", "delete configmaps", "create apps/deployments", "watch apps/deployments"} {
		if !did[right] {
			t.Errorf("the ServiceAccount did not %s; it did %v", right, did)
		}
	}
}

// Who serves a kind's resources that name nobody is said by its watch, else by the flag.
func TestWatchAndFlagNameTheServiceAccount(t *testing.T) {
	e := sideBySide(t)
	chart := e.Chart("one", configChart)
	byWatch, byFlag := e.GatedKind(chart), e.OpenKind(chart)
	byWatch.Extra = "  serviceAccount: watched\n"
	ten := startForTenants(e, []string{"--default-service-account", "fallback"}, byWatch, byFlag)
	for _, name := range []string{"watched", "fallback", "own"} {
		account(e, name)
		bind(e, e.Namespace, name, "edit")
	}
	byWatch.Create("a", nil)
	byWatch.Create("b", serviceAccount("own"))
	byFlag.Create("c", serviceAccount("own")) // values of the chart: the kind's CRD doesn't declare spec.release
	for name, k := range map[string]*harness.Kind{"a": byWatch, "b": byWatch, "c": byFlag} {
		k.WaitReady(name)
	}
	ten.wantOwnRequests(byWatch, byFlag)
	made := map[string]int{}
	for _, r := range ten.requests(ten.since, controlplane.ByVerb("create"), controlplane.ByResource("configmaps")) {
		made[actor(r)]++
	}
	for _, name := range []string{"watched", "fallback", "own"} {
		if user := "system:serviceaccount:" + e.Namespace + ":" + name; made[user] == 0 {
			t.Errorf("%s made nothing: %v", name, made)
		}
	}
}

// commands of a message that grant what is missing.
func commands(t *testing.T, message string) [][]string {
	t.Helper()
	_, grant, ok := strings.Cut(message, "grant it: ")
	grant, _, whole := strings.Cut(grant, "; refused: ")
	if !ok || !whole {
		t.Fatalf("the message has no command, or not all of it: %s", message)
	}
	var out [][]string
	for command := range strings.SplitSeq(grant, " && ") {
		words := strings.Fields(command)
		if len(words) < 4 || words[0] != "kubectl" || words[1] != "create" {
			t.Fatalf("%q is no command that creates: %s", command, message)
		}
		out = append(out, words[1:])
	}
	return out
}

// The message of a refusal can be followed, command by command, until the release is there.
func TestRefusalSaysWhatGrantsIt(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("granted", map[string]string{
		"templates/all.yaml": smallChart["templates/all.yaml"],
		"values.yaml":        smallChart["values.yaml"],
		"templates/quota.yaml": `{{- $quotas := lookup "v1" "ResourceQuota" .Release.Namespace "" }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "{{ .Release.Namespace }}-{{ .Release.Name }}", annotations: {quotas: "{{ len $quotas.items }}"}}
rules: []
`,
	}))
	ten := startForTenants(e, []string{"--reconcile-period", "1h"}, k)
	k.Create("one", serviceAccount("robot"))
	refused := func() string {
		st := k.WaitCondition("one", v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonForbidden)
		return harness.Condition(st, v1alpha1.ConditionReconciling).Message
	}
	first := refused()
	for _, want := range []string{
		"system:serviceaccount:" + e.Namespace + ":robot may not list secrets in namespace " + e.Namespace,
		"ServiceAccount robot does not exist in namespace " + e.Namespace + ": create it (kubectl create serviceaccount robot -n " + e.Namespace + ")",
		"--serviceaccount=" + e.Namespace + ":robot",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("the message lacks %q: %s", want, first)
		}
	}
	k.WaitFor("one", "tried again, later each time", func(st v1alpha1.CommonStatus) error {
		if st.Failures < 4 { // after 1, 2 and 4 seconds
			return fmt.Errorf("%d tries", st.Failures)
		}
		return nil
	})
	if got := len(ten.requests(ten.since, controlplane.ByResource("secrets"))); got > 4*4 {
		t.Errorf("%d requests of 4 tries", got)
	}
	account(e, "robot")
	given := map[string]bool{}
	for round := 0; ; round++ {
		if round == 8 {
			t.Fatalf("it takes more than %d rounds; given so far: %v", round, given)
		}
		msg := refused()
		for _, words := range commands(t, msg) {
			if command := strings.Join(words, " "); !given[command] {
				e.Kubectl(words...)
				given[command] = true
				if strings.HasPrefix(words[1], "cluster") {
					e.Cleanup(func() { kubectlQuietly(e, "delete", words[1], words[2]) })
				}
			}
		}
		e.Kubectl("annotate", strings.ToLower(k.Kind)+"."+k.Group, "one", fmt.Sprintf("%s=%d", v1alpha1.AnnotationReconcileAt, round), "--overwrite")
		ready := false
		e.Eventually("another refusal, or the end of it", func() error {
			_, st := k.Get("one")
			c := harness.Condition(st, v1alpha1.ConditionReady)
			ready = c != nil && c.Status == metav1.ConditionTrue
			if now := harness.Condition(st, v1alpha1.ConditionReconciling); !ready && (now == nil || now.Message == msg || now.Reason != v1alpha1.ReasonForbidden) {
				return errors.New(harness.Conditions(st))
			}
			return nil
		})
		if ready {
			break
		}
	}
	ten.wantOwnRequests(k)
	e.WantHistory("one", "1:deployed")
	k.Delete("one")
}

func kubectlQuietly(e *harness.Env, args ...string) {
	programs, err := controlplane.Resolve(context.WithoutCancel(e.Ctx), nil, controlplane.Kubectl)
	if err == nil {
		_ = exec.Command(programs[controlplane.Kubectl], args...).Run()
	}
}
