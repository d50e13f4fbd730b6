// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/harness"
)

const operatorAccount = "chartgate-controller-manager"

// underRights is an operator that runs as its ServiceAccount, with the rights that an overlay of config/ gives it.
type underRights struct {
	*harness.Env
	namespace string
	since     time.Time
	rendered  []*unstructured.Unstructured
	metrics   string
}

// startUnderRights installs an overlay but for its Deployment, and starts the operator as that would.
func startUnderRights(e *harness.Env, overlay, namespace string) *underRights {
	e.Helper()
	u := &underRights{Env: e, namespace: namespace, since: time.Now(), rendered: e.Rendered(overlay, namespace)}
	e.Apply(e.Rendered("config/default", "chartgate-system"), "CustomResourceDefinition")
	e.Apply(u.rendered, harness.Rights...)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.Fatal(err)
	}
	u.metrics = listener.Addr().String()
	if err := listener.Close(); err != nil {
		e.Fatal(err)
	}
	e.StartManager(harness.ManagerOptions{
		Watches: harness.Watches(e.Guestbook(), webAppKind(e), databaseKind(e)) + chosenWatches,
		Config:  e.ServiceAccountConfig(namespace, operatorAccount),
		Args: slices.Concat([]string{
			"--leader-elect", "--leader-election-namespace", namespace,
			"--metrics-bind-address", u.metrics, "--metrics-secure", "--metrics-require-rbac",
		}, loopbackRepositories, onlyWatches),
	})
	return u
}

func (u *underRights) requests(filters ...controlplane.AuditFilter) []controlplane.AuditEvent {
	u.Helper()
	events, err := u.Cluster.AuditEvents(u.Ctx, append(filters,
		controlplane.ByUser("system:serviceaccount:"+u.namespace+":"+operatorAccount), controlplane.Since(u.since))...)
	if err != nil {
		u.Fatal(err)
	}
	return events
}

func forbidden(e controlplane.AuditEvent) bool { return e.ResponseStatus.Code == http.StatusForbidden }

// usedRight is a right as rules and requests name it.
func usedRight(verb, group, resource string) string {
	if group != "" {
		resource = group + "/" + resource
	}
	return verb + " " + resource
}

func rightOf(e controlplane.AuditEvent) string {
	name := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		name += "/" + e.ObjectRef.Subresource
	}
	if name == "" {
		return e.Verb + " " + e.RequestURI
	}
	return usedRight(e.Verb, e.ObjectRef.APIGroup, name)
}

// wantNothingForbidden fails the test for each request that the API server refused for want of a right.
func (u *underRights) wantNothingForbidden(but ...string) {
	u.Helper()
	for _, e := range u.requests(forbidden) {
		if ns := e.ObjectRef.Namespace; ns != "" && ns != u.Namespace && ns != u.namespace {
			continue // what another test left behind in its namespace
		}
		if !slices.Contains(but, rightOf(e)) {
			u.Errorf("forbidden: %s in namespace %q, name %q (%s)", rightOf(e), e.ObjectRef.Namespace, e.ObjectRef.Name, e.RequestURI)
		}
	}
	if len(u.requests()) < 50 {
		u.Errorf("the operator made %d requests only: does it run as its ServiceAccount?", len(u.requests()))
	}
}

// wantEachUsed fails the test for each right of the rules that no request used, but those that are known not to be.
func (u *underRights) wantEachUsed(rules []rbacv1.PolicyRule, but map[string]string) {
	u.Helper()
	used := map[string]bool{}
	for _, e := range u.requests() {
		if e.ImpersonatedUser != nil {
			used["impersonate serviceaccounts"] = true
			continue // somebody else's right
		}
		used[rightOf(e)] = true
	}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, name := range rule.Resources {
				for _, verb := range rule.Verbs {
					right := usedRight(verb, group, name)
					// This API server begins a watch with what there is; older ones have to be asked for a list.
					now := used[right] || verb == "list" && used[usedRight("watch", group, name)]
					if but[right] == "" && !now {
						u.Errorf("the right to %s is never used", right)
					}
				}
			}
		}
	}
}

// guestbookSpec has all of the guestbook chart that takes an object of its own.
func guestbookSpec(gates ...map[string]any) map[string]any {
	spec := gated("", gates...)
	delete(spec, "message")
	maps.Copy(spec, map[string]any{
		"replicaCount": int64(1),
		"ingress":      map[string]any{"enabled": true, "hosts": []any{map[string]any{"host": "books.test"}}},
		"redis":        map[string]any{"leader": map[string]any{"persistence": map[string]any{"enabled": true}}},
	})
	return spec
}

// volume makes a PersistentVolume for the claim of a guestbook.
func volume(e *harness.Env, guestbook string) {
	e.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: harness.Name("books-")}, Spec: corev1.PersistentVolumeSpec{
		Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		ClaimRef:               &corev1.ObjectReference{Namespace: e.Namespace, Name: guestbook + "-redis-leader"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
	}}
	if err := e.Client.Create(e.Ctx, pv); err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() {
		if err := client.IgnoreNotFound(e.Client.Delete(context.WithoutCancel(e.Ctx), pv)); err != nil {
			e.Errorf("delete the PersistentVolume: %v", err)
		}
	})
}

// story takes guestbooks through all that an operator does: gates, install, upgrade, repair,
// approval, force, orphaning, uninstall. approve approves the change of a guestbook.
func (u *underRights) story(accept []any, approve func(k *harness.Kind, name, digest string)) {
	u.Helper()
	k := u.Guestbook()
	volume(u.Env, "all")
	k.Create("other", map[string]any{})
	k.WaitReady("other")
	k.Create("all", guestbookSpec(
		gateOf("settings", v1alpha1.GateConfigMapExists, map[string]any{"keys": []any{"color"}}),
		gateOf("password", v1alpha1.GateSecretExists, map[string]any{"keys": []any{"password"}}),
		gateOf("other", v1alpha1.GateDependencyReady, nil),
		gateOf("release", v1alpha1.GateManualApproval, map[string]any{"perChange": true, "accept": accept}),
	))
	waitHeld(k, "all")
	createConfigMap(u.Env, "settings", map[string]string{"color": "red"})
	createSecret(u.Env, "password", map[string]string{"password": "secret"})
	waitGate(k, "all", "settings", v1alpha1.VerdictPassed, gate.ReasonConfigMapFound)
	waitGate(k, "all", "password", v1alpha1.VerdictPassed, gate.ReasonSecretFound)
	waitGate(k, "all", "other", v1alpha1.VerdictPassed, gate.ReasonDependencyReady)
	waitPlan(u.Env, k, "all")
	approve(k, "all", waitHeld(k, "all").Pending.Digest)
	k.WaitReady("all")

	k.Patch("all", `{"spec":{"image":{"tag":"v6"},"ingress":{"annotations":{"a":"b"}},"service":{"annotations":{"a":"b"}},"serviceAccount":{"annotations":{"a":"b"}}}}`)
	first := k.WaitFor("all", "waits for approval of the upgrade", func(st v1alpha1.CommonStatus) error {
		if st.Pending == nil || st.Pending.Plan == "" {
			return fmt.Errorf("pending: %+v", st.Pending)
		}
		return nil
	}).Pending.Digest
	waitPlan(u.Env, k, "all")
	k.Patch("all", `{"spec":{"replicaCount":2}}`) // the plan is written anew
	second := k.WaitFor("all", "waits for approval of the later change", func(st v1alpha1.CommonStatus) error {
		if st.Pending == nil || st.Pending.Digest == first {
			return fmt.Errorf("pending: %+v", st.Pending)
		}
		return nil
	}).Pending.Digest
	waitPlan(u.Env, k, "all")
	approve(k, "all", second)
	k.WaitReady("all")
	waitHistory(u.Env, "all", "1:superseded 2:deployed")
	u.repair()

	// By force: objects are replaced.
	k.Patch("other", `{"metadata":{"annotations":{"helm.sdk.operatorframework.io/upgrade-force":"true"}},"spec":{"ingress":{"enabled":true}}}`)
	k.WaitReady("other")
	k.Patch("other", `{"spec":{"ingress":{"annotations":{"a":"b"}},"serviceAccount":{"annotations":{"a":"b"}},"release":{"maxHistory":2}}}`)
	k.WaitReady("other")
	waitHistory(u.Env, "other", "2:superseded 3:deployed")

	k.Create("left", map[string]any{"release": map[string]any{"deletionPolicy": "Orphan"}})
	k.WaitReady("left")
	k.Delete("left")
	if u.Object("apps/v1", "Deployment", "left") == nil {
		u.Error("an orphaned Deployment is gone")
	}
	k.Delete("all")
	k.Delete("other")
	u.WaitObjectGone("v1", "PersistentVolumeClaim", "all-redis-leader")
}

// repair deletes one object of each kind that a guestbook has, and edits another.
func (u *underRights) repair() {
	u.Helper()
	for apiVersion, kinds := range map[string][]string{
		"v1": {"Service", "ServiceAccount"}, "apps/v1": {"Deployment"}, "networking.k8s.io/v1": {"Ingress"},
	} {
		for _, kind := range kinds {
			before := u.Object(apiVersion, kind, "all")
			if err := u.Client.Delete(u.Ctx, before); err != nil {
				u.Fatal(err)
			}
			u.WaitObject(apiVersion, kind, "all", func(o *unstructured.Unstructured) error {
				if o.GetUID() == before.GetUID() {
					return errors.New("it is not made anew")
				}
				return nil
			})
		}
	}
	for _, edit := range []struct{ apiVersion, kind, name, patch string }{
		{"apps/v1", "Deployment", "all", `{"spec":{"replicas":5}}`},
		{"v1", "PersistentVolumeClaim", "all-redis-leader", `{"metadata":{"labels":{"app.kubernetes.io/component":"mine"}}}`},
	} {
		before := u.Object(edit.apiVersion, edit.kind, edit.name)
		obj := before.DeepCopy()
		if err := u.Client.Patch(u.Ctx, obj, client.RawPatch(types.MergePatchType, []byte(edit.patch))); err != nil {
			u.Fatal(err)
		}
		u.WaitObject(edit.apiVersion, edit.kind, edit.name, func(o *unstructured.Unstructured) error {
			if edit.kind != "Deployment" && o.GetLabels()["app.kubernetes.io/component"] == "mine" {
				return errors.New("it is not put back")
			}
			if n, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); edit.kind == "Deployment" && n != 2 {
				return fmt.Errorf("it has %d replicas", n)
			}
			return nil
		})
	}
}

// readMetrics asks the operator for its metrics as somebody, and returns the status.
func (u *underRights) readMetrics(token string) int {
	u.Helper()
	req, err := http.NewRequestWithContext(u.Ctx, http.MethodGet, "https://"+u.metrics+"/metrics", nil)
	if err != nil {
		u.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	insecure := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // its certificate is its own
	defer insecure.CloseIdleConnections()
	resp, err := (&http.Client{Transport: insecure, Timeout: harness.Wait}).Do(req)
	if err != nil {
		u.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// wantMetrics checks that who may read metrics can, and who may not can't.
func (u *underRights) wantMetrics() {
	u.Helper()
	token := u.ServiceAccountConfig(u.Namespace, "default").BearerToken
	if got := u.readMetrics(token); got != http.StatusForbidden {
		u.Errorf("who may not read metrics gets %d", got)
	}
	u.Kubectl("create", "clusterrolebinding", u.Namespace+"-metrics", "--clusterrole=chartgate-metrics-reader", "--serviceaccount="+u.Namespace+":default")
	defer u.Kubectl("delete", "clusterrolebinding", u.Namespace+"-metrics")
	// The operator remembers a refusal for some seconds.
	u.Eventually("metrics are read", func() error {
		if got := u.readMetrics(token); got != http.StatusOK {
			return fmt.Errorf("status %d", got)
		}
		return nil
	})
}

// The rules of config/rbac are all that the operator needs, and it needs them all.
func TestOperatorHasTheRightsItNeedsAndNoMore(t *testing.T) {
	e := harness.New(t)
	t.Chdir(e.Root())
	installPolicy(e)
	u := startUnderRights(e, "config/default", "chartgate-system")
	u.story(nil, func(k *harness.Kind, name, digest string) {
		target := v1alpha1.ApprovalTarget{Kind: k.Kind, Name: name}
		approval := approvalFor(e, target, v1alpha1.ReleaseApprovalSpec{Approver: "admin", Digest: digest})
		if err := e.Client.Create(e.Ctx, approval); err != nil {
			t.Fatal(err)
		}
	})
	u.webAppStory()
	installServiceMonitors(e)
	u.databaseStory()
	u.chosenStory()
	u.wantMetrics()
	u.wantNothingForbidden()
	rare := map[string]string{
		"update persistentvolumeclaims": "by force; API servers refuse it for a claim that is bound",
		"get namespaces":                "about a webhook that is limited to some namespaces",
		"list admissionregistration.k8s.io/validatingwebhookconfigurations":  "where no policy checks approvals",
		"watch admissionregistration.k8s.io/validatingwebhookconfigurations": "where no policy checks approvals",
	}
	for _, plural := range []string{"databases", "guestbooks", "helmapps", "microservices", "webapps"} {
		rare["update apps.chartgate.dev/"+plural+"/finalizers"] = "is asked by clusters that check who may own objects (OwnerReferencesPermissionEnforcement)"
		rare["get apps.chartgate.dev/"+plural] = "when somebody else writes finalizers at the same time"
	}
	u.wantEachUsed(slices.Concat(
		e.RoleRules(u.rendered, "ClusterRole", "chartgate-manager-role"),
		e.RoleRules(u.rendered, "ClusterRole", "chartgate-manager-cluster-role"),
		e.RoleRules(u.rendered, "ClusterRole", "chartgate-metrics-auth-role"),
		e.RoleRules(u.rendered, "Role", "chartgate-leader-election-role"),
	), rare)
}

// An operator of one namespace has Roles there and no right to anything else but to ask who somebody is.
func TestOperatorOfOneNamespaceNeedsRolesAlone(t *testing.T) {
	e := harness.New(t)
	t.Chdir(e.Root())
	t.Setenv("WATCH_NAMESPACE", e.Namespace)
	installPolicy(e)
	e.Apply(e.Rendered("config/default", "chartgate-system"), "CustomResourceDefinition")
	e.Apply(e.Rendered("config/cluster", "chartgate-system"), "ClusterRole")
	u := startUnderRights(e, "config/namespaced", e.Namespace)
	for _, o := range u.rendered {
		if kind := o.GetKind(); strings.HasPrefix(kind, "Cluster") && o.GetName() != "chartgate-metrics-auth-rolebinding-"+e.Namespace {
			t.Errorf("config/namespaced has %s %s", kind, o.GetName())
		}
	}
	elsewhere := harness.New(t) // a resource in another namespace is none of its business
	elsewhere.Guestbook().Create("foreign", map[string]any{})

	u.story([]any{string(v1alpha1.ApprovalFromConfigMap)}, approveByConfigMap(e))
	u.wantMetrics()
	u.wantNothingForbidden()
	if _, st := elsewhere.Guestbook().Get("foreign"); st.Phase != "" {
		t.Errorf("a resource of another namespace was served: %+v", st)
	}
	for _, r := range u.requests() {
		if r.ObjectRef.Resource != "" && r.ObjectRef.Namespace != e.Namespace &&
			!slices.Contains([]string{"tokenreviews", "subjectaccessreviews"}, r.ObjectRef.Resource) {
			t.Errorf("a request beyond its namespace: %s in %q", rightOf(r), r.ObjectRef.Namespace)
		}
	}

	// What is lost: it can't see whether ReleaseApprovals are checked. It says which rule is missing.
	k := e.Guestbook()
	k.Create("asks", map[string]any{"gates": []any{gateOf("release", v1alpha1.GateManualApproval, map[string]any{"accept": []any{string(v1alpha1.ApprovalFromReleaseApproval)}})}})
	g := waitGate(k, "asks", "release", v1alpha1.VerdictWaiting, gate.ReasonApproverUnverified)
	if !strings.Contains(g.Message, "may not list validatingadmissionpolicies") {
		t.Errorf("message: %s", g.Message)
	}
	policies := []string{"list admissionregistration.k8s.io/validatingadmissionpolicies", "list admissionregistration.k8s.io/validatingadmissionpolicybindings",
		"list admissionregistration.k8s.io/validatingwebhookconfigurations"}
	for _, right := range slices.Clone(policies) {
		policies = append(policies, strings.Replace(right, "list ", "watch ", 1))
	}
	u.wantNothingForbidden(policies...)
	if len(u.requests(forbidden)) == 0 {
		t.Error("the audit log has none of the refusals that there were")
	}
	k.Delete("asks")
}
