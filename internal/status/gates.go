// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

const (
	// gateMessages bounds the messages of all gates together, in bytes: with many gates, each says less.
	gateMessages = 4096
	// minGateMessage is what each may say however many there are.
	minGateMessage = 96
)

// Gates shows how the gates were judged: the list, the count, AllGatesPassed and
// a condition named after each. Times are kept where verdicts are. Gates that are
// no more are dropped. The note, if any, goes to the end of AllGatesPassed's message.
func (b *Builder) Gates(gates []v1alpha1.GateStatus, note string) *Builder {
	last := b.status.Gates
	for _, g := range last {
		if !slices.ContainsFunc(gates, func(n v1alpha1.GateStatus) bool { return n.Name == g.Name }) {
			b.Drop(g.Name)
		}
	}
	b.status.Gates, b.status.GatesPassed = nil, ""
	if len(gates) == 0 {
		return b.Drop(v1alpha1.ConditionAllGatesPassed)
	}
	limit := max(min(maxMessage, gateMessages/len(gates)), minGateMessage)
	passed := 0
	var holding, optional []string
	for _, g := range gates {
		g.Message, g.LastTransitionTime = cut(g.Message, limit), b.now
		if i := slices.IndexFunc(last, func(l v1alpha1.GateStatus) bool { return l.Name == g.Name }); i >= 0 && last[i].Verdict == g.Verdict {
			g.LastTransitionTime = last[i].LastTransitionTime
		}
		b.status.Gates = append(b.status.Gates, g)
		b.Condition(g.Name, conditionOf(g.Verdict), g.Reason, g.Message)
		switch what := fmt.Sprintf("%s (%s)", g.Name, g.Reason); {
		case g.Verdict == v1alpha1.VerdictPassed:
			passed++
		case g.Mandatory:
			holding = append(holding, what)
		default:
			optional = append(optional, what)
		}
	}
	b.status.GatesPassed = fmt.Sprintf("%d/%d", passed, len(gates))
	message := fmt.Sprintf("%d of %d gates passed", passed, len(gates))
	if len(holding) > 0 {
		message += "; waiting: " + strings.Join(holding, ", ")
	}
	if len(optional) > 0 {
		message += "; not passed, but optional: " + strings.Join(optional, ", ")
	}
	if note != "" {
		message += "; " + note
	}
	open := metav1.ConditionTrue
	if len(holding) > 0 {
		open = metav1.ConditionFalse
	}
	return b.Condition(v1alpha1.ConditionAllGatesPassed, open, v1alpha1.ReasonGatesCheckComplete, message)
}

func conditionOf(v v1alpha1.Verdict) metav1.ConditionStatus {
	switch v {
	case v1alpha1.VerdictPassed:
		return metav1.ConditionTrue
	case v1alpha1.VerdictWaiting:
		return metav1.ConditionFalse
	default:
		return metav1.ConditionUnknown
	}
}

// Approved puts the approvals of the pending change, which has the digest, on
// record beside those of the applied one. One that was on record keeps its time;
// one of the pending change that does not count any more is dropped.
func (b *Builder) Approved(digest string, records []v1alpha1.ApprovalRecord) *Builder {
	last := b.status.Approvals
	b.KeepApprovals(b.status.AppliedDigest)
	for _, r := range records {
		r.Time = b.now
		for _, l := range last {
			if l.Gate == r.Gate && l.Approver == r.Approver && l.Digest == r.Digest && l.Source == r.Source {
				r.Time = l.Time
			}
		}
		if r.Digest == digest && !slices.Contains(b.status.Approvals, r) {
			b.status.Approvals = append(b.status.Approvals, r)
		}
	}
	return b
}

// KeepApprovals drops the records of approvals of all changes but the one with the digest.
func (b *Builder) KeepApprovals(digest string) *Builder {
	kept := slices.DeleteFunc(slices.Clone(b.status.Approvals), func(r v1alpha1.ApprovalRecord) bool { return r.Digest != digest })
	if b.status.Approvals = kept; len(kept) == 0 {
		b.status.Approvals = nil
	}
	return b
}

// Planned notes where the pending change is shown; empty for nowhere.
func (b *Builder) Planned(name string) *Builder {
	if b.status.Pending != nil {
		b.status.Pending.Plan = name
	}
	return b
}

// Held tells whether the status says that gates hold the change with the digest.
func Held(st v1alpha1.CommonStatus, digest string) bool {
	return st.Pending != nil && st.Pending.Digest == digest &&
		meta.IsStatusConditionFalse(st.Conditions, v1alpha1.ConditionAllGatesPassed)
}

// compareConditions orders conditions as people read them; those of gates come last, in the order of the gates.
func (b *Builder) compareConditions(x, y metav1.Condition) int {
	if c := cmp.Compare(conditionOrder(x.Type), conditionOrder(y.Type)); c != 0 {
		return c
	}
	return cmp.Compare(b.gateOrder(x.Type), b.gateOrder(y.Type))
}

func (b *Builder) gateOrder(name string) int {
	if i := slices.IndexFunc(b.status.Gates, func(g v1alpha1.GateStatus) bool { return g.Name == name }); i >= 0 {
		return i
	}
	return len(b.status.Gates)
}
