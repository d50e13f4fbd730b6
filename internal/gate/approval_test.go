// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// protected is a protection of a test.
type protected struct {
	Protection
	err error
}

func (p protected) Protected(context.Context) (Protection, error) { return p.Protection, p.err }

var (
	vouched   = protected{Protection: Protection{Active: true, Since: noon.Add(-24 * time.Hour)}}
	unvouched = protected{}
	otherHash = strings.Repeat("f", 64)
)

func approvalMap(data string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: approval-web, namespace: ns}\ndata: {" + data + "}"
}

// approval is a ReleaseApproval of App web, an hour old.
func approval(name string, change func(*v1alpha1.ReleaseApproval)) v1alpha1.ReleaseApproval {
	a := v1alpha1.ReleaseApproval{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))},
		Spec: v1alpha1.ReleaseApprovalSpec{
			Target: v1alpha1.ApprovalTarget{Kind: "App", Name: "web", Group: "apps.chartgate.dev"},
			Gate:   "gate", Decision: v1alpha1.DecisionApprove, Approver: "anna",
		},
	}
	if change != nil {
		change(&a)
	}
	return a
}

func TestManualApproval(t *testing.T) {
	type ra = v1alpha1.ReleaseApproval
	at := func(d time.Duration) *metav1.Time { return new(metav1.NewTime(noon.Add(d))) }
	list := func(all ...ra) []ra { return all }
	onlyMap, onlyApproval := []v1alpha1.ApprovalSource{v1alpha1.ApprovalFromConfigMap}, []v1alpha1.ApprovalSource{v1alpha1.ApprovalFromReleaseApproval}
	const create = "kubectl create configmap approval-web -n ns --from-literal=approved=true --from-literal=digest=" + digest + " --from-literal=kind=App --from-literal=gate=gate"
	const patch = `kubectl patch configmap approval-web -n ns --type merge -p '{"data":{"approved":"true","digest":"` + digest + `","kind":"App","gate":"gate"}}'`
	cases := map[string]struct {
		configMap  string
		approvals  []ra
		gate       v1alpha1.Gate
		protection protected
		verdict    Verdict
		reason     string
		texts      []string
	}{
		"nobody approved":                        {"", nil, v1alpha1.Gate{}, vouched, Hold, ReasonApprovalPending, []string{"change 0123456789ab waits", create}},
		"nobody approved, only ReleaseApproval":  {"", nil, v1alpha1.Gate{Accept: onlyApproval}, vouched, Hold, ReasonApprovalPending, []string{"kind: ReleaseApproval", "target: {kind: 'App', name: 'web'}", "digest: '" + digest + "'", "| kubectl create -f -"}},
		"nobody could approve":                   {"", nil, v1alpha1.Gate{Accept: onlyApproval}, unvouched, Hold, ReasonApproverUnverified, []string{"no ReleaseApproval would count", "kubectl apply -k config/cluster"}},
		"ConfigMap":                              {`approved: "true"`, nil, v1alpha1.Gate{}, vouched, Allow, ReasonApproved, []string{"approved by unknown (ConfigMap approval-web)"}},
		"ConfigMap with all that may be given":   {`approved: "true", digest: "` + digest + `", kind: App, gate: gate`, nil, v1alpha1.Gate{PerChange: true}, vouched, Allow, ReasonApproved, nil},
		"ConfigMap with kind and group":          {`approved: "true", kind: App.apps.chartgate.dev`, nil, v1alpha1.Gate{}, vouched, Allow, ReasonApproved, nil},
		"ConfigMap that says no":                 {`approved: "false"`, nil, v1alpha1.Gate{}, vouched, Hold, ReasonNotApproved, []string{`only "true" approves`, patch}},
		"ConfigMap that says nothing":            {`x: y`, nil, v1alpha1.Gate{}, vouched, Hold, ReasonNotApproved, []string{`no approved: "true"`}},
		"ConfigMap for another change":           {`approved: "true", digest: "` + otherHash + `"`, nil, v1alpha1.Gate{}, vouched, Hold, ReasonNotApproved, []string{"for change ffffffffffff, and change 0123456789ab is pending"}},
		"ConfigMap for another kind":             {`approved: "true", kind: Database`, nil, v1alpha1.Gate{}, vouched, Hold, ReasonNotApproved, []string{"for kind Database"}},
		"ConfigMap for another gate":             {`approved: "true", gate: other`, nil, v1alpha1.Gate{}, vouched, Hold, ReasonNotApproved, []string{"for gate other"}},
		"ConfigMap without digest, per change":   {`approved: "true"`, nil, v1alpha1.Gate{PerChange: true}, vouched, Hold, ReasonNotApproved, []string{"names no digest"}},
		"ConfigMap that isn't accepted":          {`approved: "true"`, nil, v1alpha1.Gate{Accept: onlyApproval}, vouched, Hold, ReasonApprovalPending, nil},
		"ReleaseApproval":                        {"", list(approval("a", nil)), v1alpha1.Gate{}, vouched, Allow, ReasonApproved, []string{"approved by anna (ReleaseApproval a)"}},
		"ReleaseApproval that isn't accepted":    {"", list(approval("a", nil)), v1alpha1.Gate{Accept: onlyMap}, vouched, Hold, ReasonApprovalPending, nil},
		"ReleaseApproval of every gate":          {"", list(approval("a", func(a *ra) { a.Spec.Gate = "" })), v1alpha1.Gate{}, vouched, Allow, ReasonApproved, nil},
		"ReleaseApproval of another gate":        {"", list(approval("a", func(a *ra) { a.Spec.Gate = "other" })), v1alpha1.Gate{}, vouched, Hold, ReasonNotApproved, nil},
		"ReleaseApproval of another group":       {"", list(approval("a", func(a *ra) { a.Spec.Target.Group = "x.dev" })), v1alpha1.Gate{}, vouched, Hold, ReasonApprovalPending, nil},
		"ReleaseApproval of another namespace":   {"", list(approval("a", func(a *ra) { a.Namespace = "target" })), v1alpha1.Gate{}, vouched, Hold, ReasonApprovalPending, nil},
		"ReleaseApproval checked on another":     {"", list(approval("a", func(a *ra) { a.Spec.Target.Resource = "configmaps" })), v1alpha1.Gate{}, vouched, Hold, ReasonNotApproved, []string{"right to approve configmaps, but the resource is one of the apps"}},
		"ReleaseApproval that is being deleted":  {"", list(approval("a", func(a *ra) { a.DeletionTimestamp = at(0) })), v1alpha1.Gate{}, vouched, Hold, ReasonApprovalPending, nil},
		"ReleaseApproval that expired":           {"", list(approval("a", func(a *ra) { a.Spec.ExpiresAt = at(0) })), v1alpha1.Gate{}, vouched, Hold, ReasonNotApproved, []string{"expired at 2026-03-02T12:00:00Z"}},
		"ReleaseApproval for another change":     {"", list(approval("a", func(a *ra) { a.Spec.Digest = otherHash })), v1alpha1.Gate{}, vouched, Hold, ReasonNotApproved, []string{"ffffffffffff"}},
		"ReleaseApproval without digest":         {"", list(approval("a", nil)), v1alpha1.Gate{PerChange: true}, vouched, Hold, ReasonNotApproved, []string{"perChange"}},
		"ReleaseApproval with the digest":        {"", list(approval("a", func(a *ra) { a.Spec.Digest = digest })), v1alpha1.Gate{PerChange: true}, vouched, Allow, ReasonApproved, nil},
		"ReleaseApproval nothing vouches for":    {"", list(approval("a", nil)), v1alpha1.Gate{}, unvouched, Hold, ReasonApproverUnverified, []string{"ReleaseApproval a by anna does not count", create}},
		"ReleaseApproval older than the policy":  {"", list(approval("a", nil)), v1alpha1.Gate{}, protected{Protection: Protection{Active: true, Since: noon}}, Hold, ReasonApproverUnverified, []string{"made before the policy"}},
		"protection that can't be read":          {"", list(approval("a", nil)), v1alpha1.Gate{}, protected{err: errors.New("forbidden")}, Hold, ReasonApproverUnverified, []string{"forbidden"}},
		"a ConfigMap helps where nothing does":   {`approved: "true"`, list(approval("a", nil)), v1alpha1.Gate{}, unvouched, Allow, ReasonApproved, []string{"ConfigMap"}},
		"a rejection wins over what is newer":    {"", list(approval("no", func(a *ra) { a.Spec.Decision = v1alpha1.DecisionReject; a.Spec.Comment = "too late" }), approval("yes", func(a *ra) { a.CreationTimestamp = *at(0) })), v1alpha1.Gate{}, vouched, Hold, ReasonRejected, []string{"anna rejected the change (ReleaseApproval no): too late", "kubectl delete releaseapproval no -n ns"}},
		"a rejection wins over a ConfigMap":      {`approved: "true"`, list(approval("no", func(a *ra) { a.Spec.Decision = v1alpha1.DecisionReject })), v1alpha1.Gate{PerChange: false}, unvouched, Hold, ReasonRejected, nil},
		"a rejection needs no digest":            {"", list(approval("no", func(a *ra) { a.Spec.Decision = v1alpha1.DecisionReject })), v1alpha1.Gate{PerChange: true}, vouched, Hold, ReasonRejected, nil},
		"a rejection of another change is none":  {`approved: "true"`, list(approval("no", func(a *ra) { a.Spec.Decision = v1alpha1.DecisionReject; a.Spec.Digest = otherHash })), v1alpha1.Gate{}, vouched, Allow, ReasonApproved, nil},
		"a rejection that expired is none":       {`approved: "true"`, list(approval("no", func(a *ra) { a.Spec.Decision = v1alpha1.DecisionReject; a.Spec.ExpiresAt = at(-1) })), v1alpha1.Gate{}, vouched, Allow, ReasonApproved, nil},
		"an old rejection is no reason to speak": {"", list(approval("no", func(a *ra) { a.Spec.Decision = v1alpha1.DecisionReject; a.Spec.Digest = otherHash })), v1alpha1.Gate{}, vouched, Hold, ReasonApprovalPending, nil},
		"a source that is none":                  {"", nil, v1alpha1.Gate{Accept: []v1alpha1.ApprovalSource{"Mail"}}, vouched, Hold, ReasonInvalidGate, []string{"use ConfigMap or ReleaseApproval"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reader := &fakeReader{approvals: c.approvals}
			if c.configMap != "" {
				reader.with(t, approvalMap(c.configMap))
			}
			c.gate.Type = v1alpha1.GateManualApproval
			d := judge(t, change(reader), c.gate, Options{Protection: c.protection})
			expect(t, d, c.verdict, c.reason, c.texts...)
			if (d.Approval != nil) != (c.verdict == Allow) {
				t.Errorf("record %+v", d.Approval)
			}
		})
	}
}

func TestTheRecordNamesTheBestApproval(t *testing.T) {
	reader := (&fakeReader{approvals: []v1alpha1.ReleaseApproval{
		approval("c", nil),
		approval("b", func(a *v1alpha1.ReleaseApproval) {
			a.Spec.Digest, a.Spec.Approver = digest, "berta"
			a.Spec.ExpiresAt = new(metav1.NewTime(noon.Add(time.Hour)))
		}),
		approval("a", nil),
	}}).with(t, approvalMap(`approved: "true"`))
	d := judge(t, change(reader), v1alpha1.Gate{Type: v1alpha1.GateManualApproval}, Options{Protection: vouched})
	want := &v1alpha1.ApprovalRecord{Gate: "gate", Approver: "berta", Digest: digest, Source: "ReleaseApproval b", Time: metav1.NewTime(noon)}
	if diff := cmp.Diff(want, d.Approval); diff != "" {
		t.Error(diff)
	}
	if d.RecheckAfter != time.Hour {
		t.Errorf("looked at again after %s, though the approval expires in an hour", d.RecheckAfter)
	}
	if got := Approvals([]Decision{{}, d}); len(got) != 1 || got[0].Approver != "berta" {
		t.Errorf("records %v", got)
	}
}

func TestApprovalsThatCanNotBeRead(t *testing.T) {
	denied := &ForbiddenError{Verb: "list", Resource: "x", Namespace: "ns"}
	gate := v1alpha1.Gate{Type: v1alpha1.GateManualApproval}
	ask := func(reader *fakeReader, accept ...v1alpha1.ApprovalSource) Decision {
		gate.Accept = accept
		return judge(t, change(reader), gate, Options{Protection: vouched})
	}
	noMap := func() *fakeReader { return &fakeReader{fails: map[string]error{"ConfigMap": denied}} }
	expect(t, ask(noMap()), Unknown, ReasonForbidden)
	withApproval := noMap()
	withApproval.approvals = []v1alpha1.ReleaseApproval{approval("a", nil)}
	expect(t, ask(withApproval), Allow, ReasonApproved)

	// Where ReleaseApprovals can't be read there might be a rejection.
	noList := (&fakeReader{fails: map[string]error{"ReleaseApproval": denied}}).with(t, approvalMap(`approved: "true"`))
	expect(t, ask(noList), Unknown, ReasonForbidden)
	noKind := (&fakeReader{fails: map[string]error{"ReleaseApproval": &NoKindError{GroupVersionKind: releaseApprovalKind}}}).with(t, approvalMap(`approved: "true"`))
	expect(t, ask(noKind), Allow, ReasonApproved)
	expect(t, ask(noKind, v1alpha1.ApprovalFromReleaseApproval), Unknown, ReasonKindNotServed)
}

func TestTheCommandNamesWhatIsIrregular(t *testing.T) {
	c := change(&fakeReader{plural: "appz"})
	c.GroupVersionKind.Group = "other.dev"
	c.Plan = "app-web-plan"
	d := judge(t, c, v1alpha1.Gate{Type: v1alpha1.GateManualApproval, Accept: []v1alpha1.ApprovalSource{v1alpha1.ApprovalFromReleaseApproval}}, Options{Protection: vouched})
	expect(t, d, Hold, ReasonApprovalPending, "group: other.dev, resource: appz}", "kubectl get configmap app-web-plan -n ns -o yaml")
}
