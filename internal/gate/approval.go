// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// ApprovalProtection tells whether the API server vouches for who made a
// ReleaseApproval: that the approver it names is who created it, and may approve.
// It is safe for concurrent use.
type ApprovalProtection interface {
	// Protected returns the protection there is. The errors are those of a Reader.
	Protected(ctx context.Context) (Protection, error)
}

// Protection of ReleaseApprovals.
type Protection struct {
	// Active is true when the API server checks each that is created.
	Active bool
	// Since when it does. Approvals made before are not vouched for.
	Since time.Time
	// Missing says what is missing where it does not, as in "there is no ValidatingAdmissionPolicy". May be empty.
	Missing string
}

// manualApproval passes when a person approved the change.
//
// A rejection that speaks of the change wins over every approval, however old
// either is, until it is deleted or expires; one that nothing vouches for
// counts as well, since it can only hold. Approvals count only where they are
// vouched for. Of several that count, the record names one: a ReleaseApproval
// rather than a ConfigMap, one that names the change's digest rather than one
// that doesn't, then the oldest.
type manualApproval struct{ protection ApprovalProtection }

// statement is what one object says of the change.
type statement struct {
	source, approver string
	reject           bool
	comment          string
	bound            bool // names the change's digest
	verifiable       bool // a ReleaseApproval
	created          time.Time
	expires          *time.Time
	// against says why it does not count; empty if it does.
	against string
	// unverified says that it would count, if anything vouched for it.
	unverified bool
}

func (e manualApproval) Evaluate(ctx context.Context, change Change, g v1alpha1.Gate) (Decision, error) {
	sources, err := accepted(g)
	if err != nil {
		return Decision{}, err
	}
	var all []statement
	var failed error
	exists := false // the ConfigMap
	if sources.configMap {
		var s *statement
		s, exists, failed = configMapStatement(ctx, change, g)
		if s != nil {
			all = append(all, *s)
		}
	}
	if sources.releaseApproval {
		statements, err := e.releaseApprovals(ctx, change, g)
		var noKind *NoKindError
		if errors.As(err, &noKind) && sources.configMap {
			err = nil // where there is no such kind, there is no rejection either
		}
		if err != nil {
			return Decision{}, err
		}
		all = append(all, statements...)
	}
	if d, ok := settled(all, change, g); ok {
		return d, nil
	}
	if failed != nil {
		return Decision{}, failed
	}
	return e.waiting(ctx, change, g, sources, all, exists), nil
}

// settled is the decision if somebody rejected or approved the change.
func settled(all []statement, change Change, g v1alpha1.Gate) (Decision, bool) {
	if i := slices.IndexFunc(all, func(s statement) bool { return s.reject && s.against == "" }); i >= 0 {
		s := all[i]
		message := fmt.Sprintf("%s rejected the change (%s)", s.approver, s.source)
		if s.comment != "" {
			message += ": " + clip(s.comment)
		}
		message += fmt.Sprintf("; change the spec, or take the rejection back: kubectl delete releaseapproval %s -n %s", nameOf(s.source), change.Namespace)
		return Decision{Verdict: Hold, Reason: ReasonRejected, Message: message, RecheckAfter: remaining(s, change)}, true
	}
	counting := slices.DeleteFunc(slices.Clone(all), func(s statement) bool { return s.reject || s.against != "" || s.unverified })
	if len(counting) == 0 {
		return Decision{}, false
	}
	s := slices.MinFunc(counting, byWeight)
	return Decision{
		Verdict: Allow, Reason: ReasonApproved, RecheckAfter: remaining(s, change),
		Message: fmt.Sprintf("approved by %s (%s)", s.approver, s.source),
		Approval: &v1alpha1.ApprovalRecord{
			Gate: g.Name, Approver: s.approver, Digest: change.Digest, Source: s.source, Time: metaTime(change.now()),
		},
	}, true
}

// byWeight orders the approvals that count: the one for the record comes first.
func byWeight(a, b statement) int {
	for _, better := range [][2]bool{{a.verifiable, b.verifiable}, {a.bound, b.bound}} {
		if better[0] != better[1] {
			if better[0] {
				return -1
			}
			return 1
		}
	}
	if c := a.created.Compare(b.created); c != 0 {
		return c
	}
	if a.source < b.source {
		return -1
	}
	return 1
}

// remaining is how long the statement still counts; 0 is for ever.
func remaining(s statement, change Change) time.Duration {
	if s.expires == nil {
		return 0
	}
	return atLeast(s.expires.Sub(change.now()))
}

// waiting is the decision when nobody settled it.
func (e manualApproval) waiting(ctx context.Context, change Change, g v1alpha1.Gate, sources sources, all []statement, exists bool) Decision {
	d := Decision{Verdict: Hold, Reason: ReasonApprovalPending, Message: "change " + short(change.Digest) + " waits for an approval"}
	if i := slices.IndexFunc(all, func(s statement) bool { return !s.reject && s.against != "" }); i >= 0 {
		d.Reason, d.Message = ReasonNotApproved, fmt.Sprintf("%s does not count: %s", all[i].source, all[i].against)
	}
	if i := slices.IndexFunc(all, func(s statement) bool { return s.unverified && s.against == "" }); i >= 0 {
		d.Reason, d.Message = ReasonApproverUnverified, fmt.Sprintf("%s by %s does not count: %s", all[i].source, all[i].approver, e.unprotected(ctx, all[i]))
		if !sources.configMap {
			return d
		}
	} else if !sources.configMap {
		// Say so before anyone approves in vain.
		if missing := e.unprotected(ctx, statement{}); missing != "" {
			d.Reason, d.Message = ReasonApproverUnverified, d.Message+", and no ReleaseApproval would count: "+missing
			return d
		}
	}
	if change.Plan != "" {
		d.Message += fmt.Sprintf("; what it would do: kubectl get configmap %s -n %s -o yaml", change.Plan, change.Namespace)
	}
	d.Message += "; approve: " + approveCommand(ctx, change, g, sources, exists)
	return d
}

// unprotected says why nothing vouches for an approval; empty if something does.
func (e manualApproval) unprotected(ctx context.Context, s statement) string {
	const install = "; install it: kubectl apply -k config/cluster (install.yaml has it as well; under OLM the bundle's webhook vouches, and its CSV has to be Succeeded)"
	p, err := e.protected(ctx)
	switch {
	case err != nil:
		return "whether the API server vouches for who made it is not known: " + err.Error()
	case !p.Active && p.Missing != "":
		return "nothing vouches for who made it, since " + p.Missing + install
	case !p.Active:
		return "nothing vouches for who made it, since the policy that does is not installed" + install
	case !s.created.IsZero() && s.created.Before(p.Since):
		return fmt.Sprintf("it was made before the policy that vouches for its approver was; approve again, after: kubectl delete releaseapproval %s", nameOf(s.source))
	default:
		return ""
	}
}

func (e manualApproval) protected(ctx context.Context) (Protection, error) {
	if e.protection == nil {
		return Protection{}, nil
	}
	return e.protection.Protected(ctx)
}

// References are the two sources of approvals, as far as the gate accepts them.
func (manualApproval) References(change Change, g v1alpha1.Gate) []Ref {
	sources, err := accepted(g)
	if err != nil {
		return nil
	}
	var refs []Ref
	if sources.configMap {
		refs = append(refs, configMapRef(change))
	}
	if sources.releaseApproval {
		refs = append(refs, releaseApprovalRef(change))
	}
	return refs
}

func (manualApproval) Check(g v1alpha1.Gate) error {
	_, err := accepted(g)
	return err
}

// sources of approvals that a gate accepts.
type sources struct{ configMap, releaseApproval bool }

func accepted(g v1alpha1.Gate) (sources, error) {
	if len(g.Accept) == 0 {
		return sources{true, true}, nil
	}
	var out sources
	for _, s := range g.Accept {
		switch s {
		case v1alpha1.ApprovalFromConfigMap:
			out.configMap = true
		case v1alpha1.ApprovalFromReleaseApproval:
			out.releaseApproval = true
		default:
			return out, &InvalidError{Gate: g.Name, Field: fieldAccept, Problem: fmt.Sprintf("%q is no source of approvals", s), Hint: "use ConfigMap or ReleaseApproval"}
		}
	}
	return out, nil
}
