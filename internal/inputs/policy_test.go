// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/identity"
)

const policyFolder = "../../config/policy"

// installPolicy installs what config/policy ships, until the end of the test,
// and waits until the API server enforces it.
func (e *env) installPolicy() {
	e.Helper()
	for _, file := range []string{"author_role", "approver_role", "validating_admission_policy", "validating_admission_policy_binding"} {
		e.applyFile(filepath.Join(policyFolder, file+".yaml"))
	}
	e.Cleanup(func() {
		e.delete(bindingKind, "release-approvals")
		e.delete(policyKind, "release-approvals")
	})
	e.eventually("the policy is enforced", func() error {
		_, err := tryApply(e.Context(), e.admin, e.namespace, approvalYAML("probe", "someone else", ""))
		e.delete(releaseApprovals, "probe")
		if err == nil {
			return errors.New("not yet")
		}
		return nil
	})
}

func approvalYAML(name, approver, target string) string {
	if target == "" {
		target = "kind: Guestbook, name: web"
	}
	return fmt.Sprintf("apiVersion: apps.chartgate.dev/v1alpha1\nkind: ReleaseApproval\nmetadata: {name: %s}\nspec: {target: {%s}, gate: g, approver: '%s'}", name, target, approver)
}

func TestWhoMayApprove(t *testing.T) {
	e := newEnv(t, "")
	e.installPolicy()
	bind := func(user, role string) {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: []rbacv1.Subject{{Kind: "User", Name: user}},
			RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role},
		}
		if _, err := e.admin.Kubernetes.RbacV1().RoleBindings(e.namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	bind("anna", "approver")
	bind("otto", "author")
	// Paul may create approvals, and holds the verb on one resource, and on ConfigMaps.
	paul := rbacv1.Subject{Kind: "User", Name: "paul"}
	one := rule("guestbooks", "approve")
	one.ResourceNames = []string{"his"}
	e.grant(paul, rule("releaseapprovals", "create", "patch", "get"), one, rule("configmaps", "approve"), rule("berries", "approve"), rule("glasses", "approve"))
	e.grant(rbacv1.Subject{Kind: "User", Name: "anna"}, rule("releaseapprovals", "patch", "update"))
	users := map[string]*identity.Clients{"anna": clients(t, e.user("anna")), "otto": clients(t, e.user("otto")), "paul": clients(t, e.user("paul"))}

	cases := []struct {
		what, user, approver, target string
		refused                      string // empty: it is not
	}{
		{"who holds the verb", "anna", "anna", "", ""},
		{"in another's name", "anna", "otto", "", "spec.approver must be the user who approves: anna"},
		{"without the right to create", "otto", "otto", "", "cannot patch"},
		{"without the verb", "paul", "paul", "", "paul may not approve guestbooks.apps.chartgate.dev web in namespace " + e.namespace},
		{"with the verb on that resource", "paul", "paul", "kind: Guestbook, name: his", ""},
		{"on another resource", "paul", "paul", "kind: Guestbook, name: web, resource: configmaps", ""},
		{"on another group", "paul", "paul", "kind: Guestbook, name: web, group: other.dev", "paul may not approve guestbooks.other.dev"},
		{"with a plural in -ies", "paul", "paul", "kind: Berry, name: web", ""},
		{"with a plural in -es", "paul", "paul", "kind: Glass, name: web", ""},
	}
	for i, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			_, err := tryApply(t.Context(), users[c.user], e.namespace, approvalYAML(fmt.Sprintf("a%d", i), c.approver, c.target))
			if c.refused == "" && err != nil {
				t.Error(err)
			}
			if c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("refused: %v; want %q", err, c.refused)
			}
		})
	}

	t.Run("nothing can be changed later", func(t *testing.T) {
		for user, patch := range map[string]string{
			"anna": `{"spec":{"approver":"otto"}}`, "paul": `{"spec":{"decision":"Reject"}}`,
		} {
			_, err := users[user].Dynamic.Resource(v1alpha1.GroupVersion.WithResource("releaseapprovals")).Namespace(e.namespace).
				Patch(t.Context(), "a0", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			if err == nil || !strings.Contains(err.Error(), "an approval can't be changed") {
				t.Errorf("%s: %v", user, err)
			}
		}
	})

	t.Run("and an approval that was checked on another resource does not count", func(t *testing.T) {
		set := gate.NewSet(gate.Evaluators(gate.Options{Protection: e.Protection()}))
		gates := []v1alpha1.Gate{{Name: "g", Type: v1alpha1.GateManualApproval}}
		ask := func() gate.Decision {
			change := gate.Change{GroupVersionKind: v1alpha1.GroupVersion.WithKind("Guestbook"), Namespace: e.namespace, Name: "web", Digest: "d"}
			change.Reader = e.reader("web", set.References(change, gates)...)
			return set.Evaluate(t.Context(), change, gates)[0]
		}
		if d := ask(); d.Verdict != gate.Allow || d.Approval == nil || d.Approval.Approver != "anna" {
			t.Errorf("decision %+v", d)
		}
		e.delete(releaseApprovals, "a0")
		e.eventually("anna's approval is gone", func() error {
			if d := ask(); d.Reason != gate.ReasonNotApproved || !strings.Contains(d.Message, "right to approve configmaps") {
				return fmt.Errorf("decision %+v", d)
			}
			return nil
		})
	})
}

func TestProtectionIsFoundAndLost(t *testing.T) {
	e := newEnv(t, "")
	if p, err := e.Protection().Protected(t.Context()); err != nil || p.Active || p.Missing == "" {
		t.Fatalf("before: %+v, %v", p, err)
	}
	ref := gate.Ref{GroupVersionKind: releaseApprovals, Namespace: e.namespace, Name: "one", Approves: "Guestbook"}
	_, _ = e.reader("one", ref).Approvals(t.Context(), ref)
	_ = e.reader("other", e.ref(configMaps, "x"))
	woken := e.wakes("one")
	before := time.Now().Add(-2 * time.Second)
	e.installPolicy()
	e.waitWake("one", woken)
	e.eventually("the protection is seen", func() error {
		if p, err := e.Protection().Protected(t.Context()); err != nil || !p.Active || p.Since.Before(before) {
			return fmt.Errorf("%+v, %w", p, err)
		}
		return nil
	})
	woken = e.wakes("one")
	e.delete(bindingKind, "release-approvals")
	e.waitWake("one", woken)
	e.eventually("the loss is seen", func() error {
		if p, err := e.Protection().Protected(t.Context()); err != nil || p.Active || !strings.Contains(p.Missing, "no ValidatingAdmissionPolicyBinding enforces release-approvals") {
			return fmt.Errorf("%+v, %w", p, err)
		}
		return nil
	})
	if e.wakes("other") != 0 {
		t.Error("an owner without approvals was woken")
	}
}

func TestProtectionThatMayNotBeReadIsSaid(t *testing.T) {
	e := newEnv(t, "nobody")
	var denied *gate.ForbiddenError
	if _, err := e.Protection().Protected(context.Background()); !errors.As(err, &denied) || denied.Verb != "list" || denied.Namespace != "" {
		t.Errorf("error %v", err)
	} else if !strings.Contains(denied.Error(), "kubectl create clusterrole chartgate-read-validatingadmissionpolicies") {
		t.Errorf("message %s", denied)
	}
}

func TestOnlyWhatRefusesEverythingProtects(t *testing.T) {
	created := metav1.NewTime(time.Unix(1000, 0))
	policy := func(edit func(*admissionv1.ValidatingAdmissionPolicy)) []admissionv1.ValidatingAdmissionPolicy {
		p := admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: created, Labels: map[string]string{v1alpha1.LabelProtects: v1alpha1.ProtectsApprovals}},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				Validations: []admissionv1.Validation{{Expression: "x"}},
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{"apps.chartgate.dev"}, APIVersions: []string{"*"}, Resources: []string{"releaseapprovals"}},
				}}}},
			},
		}
		if edit != nil {
			edit(&p)
		}
		return []admissionv1.ValidatingAdmissionPolicy{p}
	}
	binding := func(edit func(*admissionv1.ValidatingAdmissionPolicyBinding)) []admissionv1.ValidatingAdmissionPolicyBinding {
		b := admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(2000, 0))},
			Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
		}
		if edit != nil {
			edit(&b)
		}
		return []admissionv1.ValidatingAdmissionPolicyBinding{b}
	}
	if since, missing := byPolicy(policy(nil), binding(nil)); since.Unix() != 2000 || missing != "" {
		t.Errorf("since %s, missing %q", since, missing)
	}
	ignore := admissionv1.Ignore
	some := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	type p = admissionv1.ValidatingAdmissionPolicy
	type b = admissionv1.ValidatingAdmissionPolicyBinding
	for name, c := range map[string]struct {
		policy  func(*p)
		binding func(*b)
	}{
		"without the label":     {func(p *p) { p.Labels = nil }, nil},
		"lenient when it fails": {func(p *p) { p.Spec.FailurePolicy = &ignore }, nil},
		"under a condition":     {func(p *p) { p.Spec.MatchConditions = []admissionv1.MatchCondition{{}} }, nil},
		"without validations":   {func(p *p) { p.Spec.Validations = nil }, nil},
		"in some namespaces":    {func(p *p) { p.Spec.MatchConstraints.NamespaceSelector = some }, nil},
		"with exceptions": {func(p *p) {
			p.Spec.MatchConstraints.ExcludeResourceRules = make([]admissionv1.NamedRuleWithOperations, 1)
		}, nil},
		"on updates only":            {func(p *p) { p.Spec.MatchConstraints.ResourceRules[0].Operations[0] = admissionv1.Update }, nil},
		"of something else":          {func(p *p) { p.Spec.MatchConstraints.ResourceRules[0].Resources[0] = "pods" }, nil},
		"that is going":              {func(p *p) { p.DeletionTimestamp = &created }, nil},
		"bound elsewhere":            {nil, func(b *b) { b.Spec.PolicyName = "other" }},
		"that only warns":            {nil, func(b *b) { b.Spec.ValidationActions[0] = admissionv1.Warn }},
		"bound to some namespaces":   {nil, func(b *b) { b.Spec.MatchResources = &admissionv1.MatchResources{NamespaceSelector: some} }},
		"by a binding that is going": {nil, func(b *b) { b.DeletionTimestamp = &created }},
	} {
		if since, missing := byPolicy(policy(c.policy), binding(c.binding)); !since.IsZero() || missing == "" {
			t.Errorf("a policy %s protects", name)
		}
	}
}
