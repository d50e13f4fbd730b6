// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"strings"
	"testing"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

func approvalBy(approver string, target v1alpha1.ApprovalTarget) *v1alpha1.ReleaseApproval {
	return &v1alpha1.ReleaseApproval{Spec: v1alpha1.ReleaseApprovalSpec{Approver: approver, Target: target}}
}

func TestTheApproverIsWhoAsks(t *testing.T) {
	target := v1alpha1.ApprovalTarget{Kind: "Guestbook", Name: "web"}
	for what, c := range map[string]struct {
		approver, user string
		refused        bool
	}{
		"in one's own name":     {"anna", "anna", false},
		"in another's name":     {"otto", "anna", true},
		"in another case":       {"Anna", "anna", true},
		"with a space after it": {"anna ", "anna", true},
		"as nobody":             {"", "", true},
	} {
		t.Run(what, func(t *testing.T) {
			_, refusal := Examine(approvalBy(c.approver, target), c.user, "team-a")
			if (refusal != "") != c.refused {
				t.Errorf("refusal %q", refusal)
			}
			if c.refused && !strings.Contains(refusal, "spec.approver must be the user who approves: "+c.user) {
				t.Errorf("refusal %q", refusal)
			}
		})
	}
}

func TestTheRightIsOnTheTargetsResource(t *testing.T) {
	for what, c := range map[string]struct {
		target          v1alpha1.ApprovalTarget
		group, resource string
	}{
		"a kind of ours":           {v1alpha1.ApprovalTarget{Kind: "Guestbook"}, "apps.chartgate.dev", "guestbooks"},
		"with a plural in -es":     {v1alpha1.ApprovalTarget{Kind: "Glass"}, "apps.chartgate.dev", "glasses"},
		"with a plural in -ies":    {v1alpha1.ApprovalTarget{Kind: "Berry"}, "apps.chartgate.dev", "berries"},
		"that is a plural already": {v1alpha1.ApprovalTarget{Kind: "Endpoints"}, "apps.chartgate.dev", "endpointses"},
		"of two words":             {v1alpha1.ApprovalTarget{Kind: "WebApp"}, "apps.chartgate.dev", "webapps"},
		"of one letter":            {v1alpha1.ApprovalTarget{Kind: "Y"}, "apps.chartgate.dev", "ies"},
		"with a resource":          {v1alpha1.ApprovalTarget{Kind: "Guestbook", Resource: "gbooks"}, "apps.chartgate.dev", "gbooks"},
		"of another group":         {v1alpha1.ApprovalTarget{Kind: "Guestbook", Group: "other.dev"}, "other.dev", "guestbooks"},
	} {
		t.Run(what, func(t *testing.T) {
			c.target.Name = "web"
			right, refusal := Examine(approvalBy("anna", c.target), "anna", "team-a")
			want := Right{Group: c.group, Resource: c.resource, Namespace: "team-a", Name: "web", Kind: c.target.Kind}
			if refusal != "" || right != want {
				t.Errorf("refusal %q, right %+v, want %+v", refusal, right, want)
			}
		})
	}
}

func TestWhatIsMissingCanBeGranted(t *testing.T) {
	right := Right{Group: "apps.chartgate.dev", Resource: "guestbooks", Namespace: "team-a", Name: "web", Kind: "Guestbook"}
	for user, want := range map[string]string{
		"otto": "otto may not approve guestbooks.apps.chartgate.dev web in namespace team-a: RBAC grants no verb approve on it; grant it: " +
			"kubectl create role approve-guestbooks -n team-a --verb=approve --resource=guestbooks.apps.chartgate.dev --dry-run=client -o yaml | kubectl apply -f - && " +
			"kubectl create rolebinding approve-guestbooks-otto -n team-a --role=approve-guestbooks --user=otto; " +
			"if that is not the resource of kind Guestbook, set spec.target.group and spec.target.resource",
		"system:serviceaccount:ci:bot":     "approve-guestbooks-system-serviceaccount-ci-bot -n team-a --role=approve-guestbooks --serviceaccount=ci:bot;",
		"oidc:O'Brien; rm -rf $HOME":       `approve-guestbooks-oidc-o-brien--rm--rf--home -n team-a --role=approve-guestbooks --user='oidc:O'\''Brien; rm -rf $HOME';`,
		strings.Repeat("x", 43) + "@a.org": "approve-guestbooks-" + strings.Repeat("x", 43) + " -n team-a",
	} {
		if got := right.Missing(user); !strings.Contains(got, want) {
			t.Errorf("%s\ngot  %s\nwant %s", user, got, want)
		}
	}
	right.Group = "a'b $(c)"
	if got := right.Missing("otto"); !strings.Contains(got, `--resource='guestbooks.a'\''b $(c)' `) {
		t.Errorf("got %s", got)
	}
}
