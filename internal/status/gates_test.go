// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

func judged(name string, mandatory bool, v v1alpha1.Verdict, message string) v1alpha1.GateStatus {
	return v1alpha1.GateStatus{Name: name, Type: v1alpha1.GateExpression, Mandatory: mandatory, Verdict: v, Reason: "R", Message: message}
}

func TestGatesKeepTimesWhileVerdictsStay(t *testing.T) {
	first := NewBuilder(v1alpha1.CommonStatus{}, 1, noon).Gates([]v1alpha1.GateStatus{
		judged("a", true, v1alpha1.VerdictWaiting, "x"), judged("b", false, v1alpha1.VerdictUnknown, "y"), judged("c", true, v1alpha1.VerdictPassed, ""),
	}, "").Status()
	if first.GatesPassed != "1/3" || !meta.IsStatusConditionFalse(first.Conditions, v1alpha1.ConditionAllGatesPassed) {
		t.Errorf("%+v", first)
	}
	later := noon.Add(time.Hour)
	second := NewBuilder(first, 1, later).Gates([]v1alpha1.GateStatus{
		judged("a", true, v1alpha1.VerdictWaiting, "another message"), judged("b", false, v1alpha1.VerdictWaiting, "y"),
	}, "note").Status()
	if got := second.Gates[0].LastTransitionTime.Time; !got.Equal(noon) {
		t.Errorf("a new message moved the time to %s", got)
	}
	if got := second.Gates[1].LastTransitionTime.Time; !got.Equal(later) {
		t.Errorf("a new verdict left the time at %s", got)
	}
	if meta.FindStatusCondition(second.Conditions, "c") != nil {
		t.Error("the condition of a gate that is gone stays")
	}
	all := meta.FindStatusCondition(second.Conditions, v1alpha1.ConditionAllGatesPassed)
	if want := "0 of 2 gates passed; waiting: a (R); not passed, but optional: b (R); note"; all.Message != want {
		t.Errorf("message %q, want %q", all.Message, want)
	}
	same := NewBuilder(second, 1, later.Add(time.Hour)).Gates(second.Gates, "note").Status()
	if !reflect.DeepEqual(same, second) {
		t.Errorf("the same verdicts change the status:\n%+v\n%+v", same, second)
	}
	none := NewBuilder(second, 1, later).Gates(nil, "").Status()
	if len(none.Conditions) > 0 || none.Gates != nil || none.GatesPassed != "" {
		t.Errorf("without gates: %+v", none)
	}
}

func TestGatesStaySmallAndInOrder(t *testing.T) {
	var gates []v1alpha1.GateStatus
	for i := range 32 {
		gates = append(gates, judged(fmt.Sprintf("gate-%02d", i), true, v1alpha1.VerdictWaiting, strings.Repeat("long ", 400)))
	}
	st := NewBuilder(v1alpha1.CommonStatus{}, 1, noon).Gates(gates, "").Status()
	content, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	if len(content) > 32<<10 {
		t.Errorf("the status of 32 gates has %d bytes", len(content))
	}
	for i, c := range st.Conditions[1:] {
		if c.Type != gates[i].Name {
			t.Fatalf("condition %d is %s", i+1, c.Type)
		}
	}
}

func TestApprovalsKeepTheirTime(t *testing.T) {
	record := func(digest string) v1alpha1.ApprovalRecord {
		return v1alpha1.ApprovalRecord{Gate: "g", Approver: "anna", Digest: digest, Source: "ConfigMap x"}
	}
	digests := func(st v1alpha1.CommonStatus) (out []string) {
		for _, r := range st.Approvals {
			out = append(out, r.Digest+"@"+r.Time.UTC().Format("15:04"))
		}
		return out
	}
	st := NewBuilder(v1alpha1.CommonStatus{}, 1, noon).Approved("a", []v1alpha1.ApprovalRecord{record("a")}).Status()
	st = NewBuilder(st, 1, noon.Add(time.Hour)).Approved("a", []v1alpha1.ApprovalRecord{record("a")}).Deployed(Release{Revision: 1}, "a").KeepApprovals("a").Status()
	st = NewBuilder(st, 2, noon.Add(2*time.Hour)).Approved("b", []v1alpha1.ApprovalRecord{record("b")}).Status()
	if got := fmt.Sprint(digests(st)); got != "[a@12:00 b@14:00]" {
		t.Errorf("while b is pending: %s", got)
	}
	if got := fmt.Sprint(digests(NewBuilder(st, 2, noon).Approved("b", nil).Status())); got != "[a@12:00]" {
		t.Errorf("when b's approval was taken back: %s", got)
	}
	st = NewBuilder(st, 2, noon).KeepApprovals("b").Status()
	if got := fmt.Sprint(digests(st)); got != "[b@14:00]" {
		t.Errorf("when b was applied: %s", got)
	}
	if !Held(v1alpha1.CommonStatus{Pending: &v1alpha1.PendingChange{Digest: "b"}, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAllGatesPassed, Status: metav1.ConditionFalse}}}, "b") {
		t.Error("not held")
	}
}
