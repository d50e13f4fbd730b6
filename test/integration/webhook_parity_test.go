// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/harness"
)

// waitUnchecked waits until nothing checks approvals.
func waitUnchecked(e *harness.Env) {
	e.Helper()
	e.Eventually("approvals are not checked", func() error {
		probe := approvalFor(e, v1alpha1.ApprovalTarget{Kind: "Guestbook", Name: "probe"}, v1alpha1.ReleaseApprovalSpec{Approver: "somebody else"})
		return e.Client.Create(e.Ctx, probe, client.DryRunAll)
	})
}

// approvalRequest is a request to create an approval.
type approvalRequest struct {
	by   string
	spec map[string]any
}

// targetWith is a target with these fields, or without those that are nil.
func targetWith(fields map[string]any) map[string]any {
	out := map[string]any{"kind": "Guestbook", "name": "web"}
	for k, v := range fields {
		if v == nil {
			delete(out, k)
			continue
		}
		out[k] = v
	}
	return out
}

// approvalRequests are requests by people of all kinds, for targets of all kinds.
func approvalRequests(namespace string) map[string]approvalRequest {
	requests := map[string]approvalRequest{}
	add := func(what, by, approver string, target map[string]any) {
		requests[what+" by "+by] = approvalRequest{by, map[string]any{"approver": approver, "target": target}}
	}
	names := map[string]string{
		"admin": "admin", "anna": "anna", "otto": "otto", "paul": "paul", "lead": "lead", "pia": "oidc:pia@example.com",
		"robot": "system:serviceaccount:" + namespace + ":robot",
	}
	for by, name := range names {
		add("their own", by, name, targetWith(nil))
		add("in another's name", by, "somebody", targetWith(nil))
		for what, fields := range map[string]map[string]any{
			"a name of one's own":      {"name": "his"},
			"a name with a slash":      {"name": "a/b"},
			"a name with odd letters":  {"name": "Ä *'\"{}"},
			"a plural in -ies":         {"kind": "Berry"},
			"a plural in -es":          {"kind": "Glass"},
			"a kind in capitals":       {"kind": "GUESTBOOK"},
			"endpoints":                {"kind": "Endpoints"},
			"a letter":                 {"kind": "Y"},
			"another resource":         {"resource": "configmaps"},
			"an empty resource":        {"resource": ""},
			"a resource by its name":   {"resource": "guestbooks", "kind": "Other"},
			"another group":            {"group": "other.dev"},
			"an empty group":           {"group": ""},
			"a wildcard for the group": {"group": "*"},
			"the group spelled out":    {"group": "apps.chartgate.dev"},
			"no kind":                  {"kind": nil},
			"a kind in small letters":  {"kind": "guestbook"},
			"a resource with a slash":  {"resource": "guestbooks/status"},
			"no name":                  {"name": ""},
		} {
			add(what, by, name, targetWith(fields))
		}
	}
	requests["without an approver"] = approvalRequest{"anna", map[string]any{"target": targetWith(nil)}}
	requests["with an empty approver"] = approvalRequest{"anna", map[string]any{"target": targetWith(nil), "approver": ""}}
	requests["with all fields"] = approvalRequest{"anna", map[string]any{
		"target": targetWith(nil), "approver": "anna", "gate": "g", "decision": "Reject", "digest": strings.Repeat("a", 64),
		"expiresAt": "2031-01-01T00:00:00Z", "comment": "no",
	}}
	requests["with a field that does not exist"] = approvalRequest{"otto", map[string]any{"target": targetWith(nil), "approver": "anna", "Approver": "otto"}}
	return requests
}

// approvalUsers are the people of approvalRequests: clients, with what they may do.
func approvalUsers(e *harness.Env) map[string]client.Client {
	e.Helper()
	create := rbacv1.PolicyRule{APIGroups: []string{"apps.chartgate.dev"}, Resources: []string{"releaseapprovals"}, Verbs: []string{"create"}}
	approve := func(names []string, group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, ResourceNames: names, Verbs: []string{"approve"}}
	}
	grant := func(name string, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}, Rules: append(rules, create)}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: role.ObjectMeta, Subjects: []rbacv1.Subject{subject}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		}
		for _, obj := range []client.Object{role, binding} {
			if err := e.Client.Create(e.Ctx, obj); err != nil {
				e.Fatal(err)
			}
		}
	}
	user := func(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "User", Name: name} }
	own := []string{"his", "a/b", "Ä *'\"{}"}
	grant("anna", user("anna"), approve(nil, "apps.chartgate.dev", "guestbooks"))
	grant("otto", user("otto"))
	grant("paul", user("paul"), approve(own, "apps.chartgate.dev", "guestbooks"), approve(nil, "apps.chartgate.dev", "berries", "glasses", "ies", "endpointses", "configmaps"))
	grant("leads", rbacv1.Subject{Kind: "Group", Name: "leads"}, approve(nil, "*", "*"))
	grant("pia", user("oidc:pia@example.com"), approve(nil, "other.dev", "*"), approve(nil, "", "guestbooks", "configmaps"))
	grant("robot", rbacv1.Subject{Kind: "ServiceAccount", Namespace: e.Namespace, Name: "robot"}, approve(nil, "apps.chartgate.dev", "guestbooks", "endpoints"))

	clients := map[string]client.Client{"admin": e.Client}
	for name, config := range map[string]func() (*rest.Config, error){
		"anna": func() (*rest.Config, error) { return e.Cluster.User("anna") },
		"otto": func() (*rest.Config, error) { return e.Cluster.User("otto") },
		"paul": func() (*rest.Config, error) { return e.Cluster.User("paul") },
		"lead": func() (*rest.Config, error) { return e.Cluster.User("lead", "leads") },
		"pia": func() (*rest.Config, error) {
			cfg := e.Cluster.Config() // impersonated, with an id and more
			cfg.Impersonate = rest.ImpersonationConfig{UserName: "oidc:pia@example.com", UID: "7", Groups: []string{"system:authenticated"}, Extra: map[string][]string{"scopes": {"a", "b"}}}
			return cfg, nil
		},
		"robot": func() (*rest.Config, error) {
			cfg := e.Cluster.Config()
			cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + e.Namespace + ":robot"}
			return cfg, nil
		},
	} {
		cfg, err := config()
		if err != nil {
			e.Fatal(err)
		}
		if clients[name], err = client.New(cfg, client.Options{}); err != nil {
			e.Fatal(err)
		}
	}
	return clients
}

// verdict is how the API server answered: with which code, and for which reason.
func verdict(err error) string {
	if err == nil {
		return "created"
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "no answer: " + err.Error()
	}
	s := status.Status()
	return fmt.Sprintf("%d %s", s.Code, s.Reason)
}

func TestPolicyAndWebhookDecideTheSame(t *testing.T) {
	e := harness.New(t)
	users, requests := approvalUsers(e), approvalRequests(e.Namespace)
	ask := func() map[string]string {
		verdicts := map[string]string{}
		for what, r := range requests {
			obj := &unstructured.Unstructured{Object: map[string]any{"spec": r.spec}}
			obj.SetAPIVersion(v1alpha1.GroupVersion.String())
			obj.SetKind(v1alpha1.KindReleaseApproval)
			obj.SetNamespace(e.Namespace)
			obj.SetGenerateName("approval-")
			verdicts[what] = verdict(users[r.by].Create(e.Ctx, obj.DeepCopy(), client.DryRunAll))
		}
		return verdicts
	}
	var byPolicy, byNothing map[string]string
	t.Run("policy", func(t *testing.T) {
		policyEnv := *e
		policyEnv.TB = t
		installPolicy(&policyEnv)
		e.Eventually("the rights are known", func() error {
			byPolicy = ask()
			if got := byPolicy["their own by robot"]; got != "created" {
				return errors.New(got)
			}
			return nil
		})
	})
	waitUnchecked(e)
	byNothing = ask()

	k := e.GatedKind(e.Chart("one", configChart))
	serving := newWebhookServing(e)
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: append(serving.args, onlyWatches...)})
	installWebhook(e, serving)
	byWebhook := ask()

	counts := map[string]int{}
	for what := range requests {
		counts[byPolicy[what]]++
		if byPolicy[what] != byWebhook[what] {
			t.Errorf("%s: the policy says %s, the webhook %s", what, byPolicy[what], byWebhook[what])
		}
		// What neither is asked about is no proof of anything: such requests end before, in the same way.
		if strings.HasPrefix(byNothing[what], "422") != strings.HasPrefix(byPolicy[what], "422") {
			t.Errorf("%s: %s without, %s with the policy", what, byNothing[what], byPolicy[what])
		}
	}
	t.Logf("%d requests: %v", len(requests), counts)
	for want, atLeast := range map[string]int{"created": 30, "403 Forbidden": 50, "422 Invalid": 20} {
		if counts[want] < atLeast {
			t.Errorf("only %d requests end in %s; the table is too tame", counts[want], want)
		}
	}
}
