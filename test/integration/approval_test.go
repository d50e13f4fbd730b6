// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/plan"
	"github.com/chartgate/chartgate/test/harness"
)

func planName(k *harness.Kind, name string) string {
	return plan.Names(k.GroupKind(), name)[0]
}

// waitPlan waits until the plan of the resource shows the change that is pending.
func waitPlan(e *harness.Env, k *harness.Kind, name string) *unstructured.Unstructured {
	e.Helper()
	return e.WaitObject("v1", "ConfigMap", planName(k, name), func(o *unstructured.Unstructured) error {
		_, st := k.Get(name)
		if st.Pending == nil || data(o, plan.KeyDigest) != st.Pending.Digest || st.Pending.Plan != o.GetName() {
			return fmt.Errorf("the plan is of change %s, pending is %+v", data(o, plan.KeyDigest), st.Pending)
		}
		return nil
	})
}

func TestApprovalShowsThePlanAndKeepsARecord(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", smallChart))
	m := e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	k.Create("one", gated("first", gateOf("release", v1alpha1.GateManualApproval, nil)))
	waitHeld(k, "one")
	cm := waitPlan(e, k, "one")
	if got := data(cm, plan.KeySummary); got != "3 objects added, 0 changed, 0 removed" {
		t.Errorf("summary of the first plan: %q", got)
	}
	e.Kubectl("create", "configmap", "approval-one", "--from-literal=approved=true")
	st := k.WaitReady("one")
	if len(st.Approvals) != 1 || st.Approvals[0].Approver != "unknown" || st.Approvals[0].Source != "ConfigMap approval-one" || st.Approvals[0].Digest != st.AppliedDigest {
		t.Errorf("approvals on record: %+v", st.Approvals)
	}
	e.WaitObjectGone("v1", "ConfigMap", planName(k, "one"))
	deleteConfigMap(e, "approval-one")
	waitGate(k, "one", "release", v1alpha1.VerdictWaiting, gate.ReasonApprovalPending)

	k.Patch("one", `{"spec":{"message":"second"}}`)
	waitHeld(k, "one")
	cm = waitPlan(e, k, "one")
	if diff := data(cm, plan.KeyDiff); !strings.Contains(diff, "-  message: \"first\"") && !strings.Contains(diff, "-  message: first") || data(cm, plan.KeyChanged) != "1" {
		t.Errorf("plan of a change:\n%s", diff)
	}
	// The plan follows the change, and is put back.
	k.Patch("one", `{"spec":{"message":"third"}}`)
	e.Eventually("the plan follows", func() error {
		o := e.Object("v1", "ConfigMap", planName(k, "one"))
		if o == nil || !strings.Contains(data(o, plan.KeyDiff), "third") {
			return errors.New("not yet")
		}
		return nil
	})
	waitPlan(e, k, "one")
	patch(t, e, "v1", "ConfigMap", planName(k, "one"), `{"data":{"diff":"nothing at all"}}`)
	e.WaitObject("v1", "ConfigMap", planName(k, "one"), func(o *unstructured.Unstructured) error {
		if !strings.Contains(data(o, plan.KeyDiff), "third") {
			return errors.New("the plan is forged")
		}
		return nil
	})
	deleteConfigMap(e, planName(k, "one"))
	waitPlan(e, k, "one")
	// A restarted operator has nothing to write.
	m.Stop()
	since := time.Now()
	m.Start()
	e.Eventually("it is up", func() error {
		if len(requests(t, e, since)) == 0 {
			return errors.New("no request yet")
		}
		return nil
	})
	e.Never("no write", 3*time.Second, func() error {
		if got := requests(t, e, since, writes()); len(got) > 0 {
			return errors.New(strings.Join(got, "; "))
		}
		return nil
	})

	k.Patch("one", `{"spec":{"message":"first"}}`) // a change of mind
	st = k.WaitReady("one")
	if st.Pending != nil || st.Revision != 1 || len(st.Approvals) != 1 {
		t.Errorf("status after the change of mind: %+v", st)
	}
	e.WaitObjectGone("v1", "ConfigMap", planName(k, "one"))
	e.Eventually("the approval is told", func() error {
		if got := countEvents(e, v1alpha1.EventChangeApproved, "by unknown"); got != 1 {
			return fmt.Errorf("%d events", got)
		}
		return nil
	})
}

func TestApprovalOfOneChangeLetsNoOtherThrough(t *testing.T) {
	e := harness.New(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	k.Create("one", gated("a", gateOf("release", v1alpha1.GateManualApproval, map[string]any{"perChange": true})))
	a := waitHeld(k, "one").Pending.Digest
	createConfigMap(e, "approval-one", map[string]string{"approved": "true"})
	waitGate(k, "one", "release", v1alpha1.VerdictWaiting, gate.ReasonNotApproved) // names no digest
	k.Patch("one", `{"spec":{"message":"b"}}`)
	k.WaitFor("one", "holds the other change", func(st v1alpha1.CommonStatus) error {
		if st.Pending == nil || st.Pending.Digest == a {
			return fmt.Errorf("pending: %+v", st.Pending)
		}
		return nil
	}) // what it had not seen yet could not hold the first
	patch(t, e, "v1", "ConfigMap", "approval-one", fmt.Sprintf(`{"data":{"digest":"%s"}}`, a))
	b := k.WaitFor("one", "waits with the approval of another change", func(st v1alpha1.CommonStatus) error {
		if st.Pending == nil || st.Pending.Digest == a || !strings.Contains(st.Message, "it is for change "+a[:12]) {
			return errors.New(st.Message)
		}
		return nil
	})
	e.WantHistory("one", "")
	// The printed command approves just this change.
	deleteConfigMap(e, "approval-one")
	g := waitGate(k, "one", "release", v1alpha1.VerdictWaiting, gate.ReasonApprovalPending)
	_, command, _ := strings.Cut(g.Message, "approve: kubectl ")
	if !strings.Contains(command, b.Pending.Digest) {
		t.Fatalf("message: %s", g.Message)
	}
	e.Kubectl(strings.Fields(command)...)
	st := k.WaitReady("one")
	message(t, e, "one", "b")
	if len(st.Approvals) != 1 || st.Approvals[0].Digest != b.Pending.Digest {
		t.Errorf("approvals on record: %+v", st.Approvals)
	}
	k.Patch("one", `{"spec":{"message":"c"}}`)
	waitHeld(k, "one")
	waitGate(k, "one", "release", v1alpha1.VerdictWaiting, gate.ReasonNotApproved)
	e.WantHistory("one", "1:deployed")
}

// installPolicy installs what config/policy ships, until the end of the test.
func installPolicy(e *harness.Env) {
	e.Helper()
	e.Kubectl("apply", "--server-side", "-f", filepath.Join(e.Root(), "config/crd/bases/apps.chartgate.dev_releaseapprovals.yaml"))
	e.Kubectl("wait", "--for=condition=Established", "crd/releaseapprovals.apps.chartgate.dev")
	policy := filepath.Join(e.Root(), "config", "policy")
	e.Kubectl("apply", "-k", policy)
	e.Cleanup(func() { // the test's context has ended by then
		for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
			obj := &unstructured.Unstructured{}
			obj.SetAPIVersion("admissionregistration.k8s.io/v1")
			obj.SetKind(kind)
			obj.SetName("release-approvals")
			if err := e.Client.Delete(context.WithoutCancel(e.Ctx), obj); err != nil {
				e.Errorf("delete %s: %v", kind, err)
			}
		}
	})
	e.Eventually("the policy is enforced", func() error {
		probe := approvalFor(e, v1alpha1.ApprovalTarget{Kind: "Guestbook", Name: "probe"}, v1alpha1.ReleaseApprovalSpec{Approver: "somebody else"})
		err := e.Client.Create(e.Ctx, probe)
		if err == nil {
			_ = e.Client.Delete(e.Ctx, probe)
			return errors.New("not yet")
		}
		if !apierrors.IsForbidden(err) {
			return err
		}
		return nil
	})
}

// approvalFor returns an approval of the target, as an object.
func approvalFor(e *harness.Env, target v1alpha1.ApprovalTarget, spec v1alpha1.ReleaseApprovalSpec) *unstructured.Unstructured {
	e.Helper()
	spec.Target = target
	content, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.KindReleaseApproval,
		"metadata": map[string]any{"generateName": "approval-", "namespace": e.Namespace}, "spec": spec,
	})
	if err != nil {
		e.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &obj.Object); err != nil {
		e.Fatal(err)
	}
	return obj
}

// as returns a client that acts as the user, who may create approvals, and approve where it is said.
func as(e *harness.Env, k *harness.Kind, user string, approves bool) client.Client {
	e.Helper()
	rules := []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"releaseapprovals"}, Verbs: []string{"*"}}}
	if approves {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{k.Group}, Resources: []string{k.Resource()}, Verbs: []string{"approve"}})
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: user}, Rules: rules}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: user}, Subjects: []rbacv1.Subject{{Kind: "User", Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	}
	for _, obj := range []client.Object{role, binding} {
		if err := e.Client.Create(e.Ctx, obj); err != nil {
			e.Fatal(err)
		}
	}
	cfg, err := e.Cluster.User(user)
	if err != nil {
		e.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		e.Fatal(err)
	}
	return c
}

func TestApprovalByNamedPeople(t *testing.T) {
	e := harness.New(t)
	installPolicy(e)
	k := e.GatedKind(e.Chart("one", configChart))
	k.Extra = "  gates:\n  - {name: release, type: ManualApproval, accept: [ReleaseApproval], checkInterval: 3600}\n"
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	anna, otto := as(e, k, "anna", true), as(e, k, "otto", false)
	target := v1alpha1.ApprovalTarget{Kind: k.Kind, Name: "one", Group: k.Group}
	k.Create("one", map[string]any{"message": "a"})
	digest := waitHeld(k, "one").Pending.Digest
	waitGate(k, "one", "release", v1alpha1.VerdictWaiting, gate.ReasonApprovalPending)
	createConfigMap(e, "approval-one", map[string]string{"approved": "true"}) // not accepted here

	for what, try := range map[string]struct {
		by       client.Client
		approver string
	}{
		"in somebody else's name": {anna, "otto"},
		"without the verb":        {otto, "otto"},
		"as who has the verb":     {otto, "anna"},
	} {
		if err := try.by.Create(e.Ctx, approvalFor(e, target, v1alpha1.ReleaseApprovalSpec{Approver: try.approver})); !apierrors.IsForbidden(err) {
			t.Errorf("approved %s: %v", what, err)
		}
	}
	soon := metav1.NewTime(time.Now().Add(-time.Minute))
	expired := approvalFor(e, target, v1alpha1.ReleaseApprovalSpec{Approver: "anna", ExpiresAt: &soon})
	if err := anna.Create(e.Ctx, expired); err != nil {
		t.Fatal(err)
	}
	if g := waitGate(k, "one", "release", v1alpha1.VerdictWaiting, gate.ReasonNotApproved); !strings.Contains(g.Message, "expired") {
		t.Errorf("message: %s", g.Message)
	}
	e.WantHistory("one", "")
	reject := approvalFor(e, target, v1alpha1.ReleaseApprovalSpec{Approver: "anna", Decision: v1alpha1.DecisionReject, Comment: "not on a Monday"})
	if err := anna.Create(e.Ctx, reject); err != nil {
		t.Fatal(err)
	}
	if g := waitGate(k, "one", "release", v1alpha1.VerdictWaiting, gate.ReasonRejected); !strings.Contains(g.Message, "not on a Monday") {
		t.Errorf("message: %s", g.Message)
	}
	if err := anna.Delete(e.Ctx, reject); err != nil {
		t.Fatal(err)
	}
	approve := approvalFor(e, target, v1alpha1.ReleaseApprovalSpec{Approver: "anna", Gate: "release", Digest: digest})
	if err := anna.Create(e.Ctx, approve); err != nil {
		t.Fatal(err)
	}
	st := k.WaitReady("one")
	if len(st.Approvals) != 1 || st.Approvals[0].Approver != "anna" || st.Approvals[0].Digest != digest || !strings.HasPrefix(st.Approvals[0].Source, "ReleaseApproval approval-") {
		t.Errorf("approvals on record: %+v", st.Approvals)
	}
	e.Eventually("the event names who approved", func() error {
		if countEvents(e, v1alpha1.EventChangeApproved, "by anna") != 1 {
			return errors.New("it does not")
		}
		return nil
	})
	edited := approve.DeepCopy()
	_ = unstructured.SetNestedField(edited.Object, "", "spec", "digest")
	if err := anna.Update(e.Ctx, edited); !apierrors.IsInvalid(err) {
		t.Errorf("an approval was changed afterwards: %v", err)
	}
	k.Patch("one", `{"spec":{"message":"b"}}`)
	waitHeld(k, "one")
	waitGate(k, "one", "release", v1alpha1.VerdictWaiting, gate.ReasonNotApproved)
	e.WantHistory("one", "1:deployed")
}

func TestApprovalWithoutThePolicyDoesNotCount(t *testing.T) {
	e := harness.New(t)
	e.Kubectl("apply", "--server-side", "-f", filepath.Join(e.Root(), "config/crd/bases/apps.chartgate.dev_releaseapprovals.yaml"))
	e.Kubectl("wait", "--for=condition=Established", "crd/releaseapprovals.apps.chartgate.dev")
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	k.Create("one", gated("a", gateOf("release", v1alpha1.GateManualApproval, nil)))
	waitHeld(k, "one")
	approve := approvalFor(e, v1alpha1.ApprovalTarget{Kind: k.Kind, Name: "one", Group: k.Group}, v1alpha1.ReleaseApprovalSpec{Approver: "admin"})
	if err := e.Client.Create(e.Ctx, approve); err != nil {
		t.Fatal(err)
	}
	waitGate(k, "one", "release", v1alpha1.VerdictWaiting, gate.ReasonApproverUnverified)
	e.WantHistory("one", "")
}

// approveByConfigMap approves changes the way everybody can.
func approveByConfigMap(e *harness.Env) func(*harness.Kind, string, string) {
	return func(_ *harness.Kind, name, digest string) {
		e.Helper()
		if e.Object("v1", "ConfigMap", "approval-"+name) != nil {
			deleteConfigMap(e, "approval-"+name)
		}
		createConfigMap(e, "approval-"+name, map[string]string{"approved": "true", "digest": digest})
	}
}
