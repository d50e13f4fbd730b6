// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// unknownApprover is who approved by ConfigMap, which does not tell.
const unknownApprover = "unknown"

// configMapRef is the ConfigMap that approves changes of the resource.
func configMapRef(change Change) Ref {
	return Ref{GroupVersionKind: configMapKind, Namespace: change.Namespace, Name: "approval-" + change.Name, Approves: change.kind().Kind}
}

// releaseApprovalRef is all ReleaseApprovals that target the resource.
func releaseApprovalRef(change Change) Ref {
	return Ref{GroupVersionKind: releaseApprovalKind, Namespace: change.Namespace, Name: change.Name, Approves: change.kind().Kind}
}

// configMapStatement is what the ConfigMap says, if it says anything, and whether it exists.
func configMapStatement(ctx context.Context, change Change, g v1alpha1.Gate) (*statement, bool, error) {
	ref := configMapRef(change)
	obj, err := change.reader().Object(ctx, ref)
	if errors.Is(err, ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, readError(ref, err)
	}
	data, _, err := unstructured.NestedStringMap(obj.Object, "data")
	if err != nil {
		data = nil
	}
	s := &statement{source: "ConfigMap " + ref.Name, approver: unknownApprover, created: obj.GetCreationTimestamp().Time}
	field := func(name string) string { return strings.TrimSpace(data[name]) }
	kind := change.kind()
	switch approved := field("approved"); {
	case approved == "":
		s.against = `it has no approved: "true"`
	case approved != "true":
		s.against = fmt.Sprintf(`approved is %q; only "true" approves`, clip(approved))
	case field("kind") != "" && field("kind") != kind.Kind && field("kind") != kind.GroupKind().String():
		s.against = fmt.Sprintf("it is for kind %s", clip(field("kind")))
	default:
		s.against = mismatch(change, g.Name, g.PerChange, field("gate"), field("digest"))
	}
	s.bound = field("digest") != ""
	return s, true, nil
}

// releaseApprovals is what the ReleaseApprovals say that target the resource.
func (e manualApproval) releaseApprovals(ctx context.Context, change Change, g v1alpha1.Gate) ([]statement, error) {
	found, err := change.reader().Approvals(ctx, releaseApprovalRef(change))
	if err != nil {
		return nil, fmt.Errorf("the ReleaseApprovals in namespace %s: %w", change.Namespace, err)
	}
	var all []statement
	for i := range found {
		s, ok, err := e.releaseApproval(ctx, change, g, &found[i])
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, s)
		}
	}
	return all, nil
}

func (e manualApproval) releaseApproval(ctx context.Context, change Change, g v1alpha1.Gate, approval *v1alpha1.ReleaseApproval) (statement, bool, error) {
	spec, kind := approval.Spec, change.kind()
	if spec.Target.Kind != kind.Kind || spec.Target.Name != change.Name || targetGroup(spec.Target) != kind.Group ||
		approval.Namespace != change.Namespace || approval.DeletionTimestamp != nil {
		return statement{}, false, nil
	}
	s := statement{
		source: v1alpha1.KindReleaseApproval + " " + approval.Name, approver: spec.Approver, reject: spec.Decision == v1alpha1.DecisionReject,
		comment: spec.Comment, bound: spec.Digest != "", verifiable: true, created: approval.CreationTimestamp.Time,
	}
	if spec.ExpiresAt != nil {
		s.expires = &spec.ExpiresAt.Time
	}
	served, err := change.reader().Kind(ctx, kind)
	if err != nil {
		return s, false, err
	}
	switch resource := targetResource(spec.Target); {
	case s.expires != nil && !change.now().Before(*s.expires):
		s.against = "it expired at " + s.expires.UTC().Format(time.RFC3339)
	case resource != served.Resource && !s.reject:
		s.against = fmt.Sprintf("its approver was asked for the right to approve %s, but the resource is one of the %s; set spec.target.resource to that", resource, served.Resource)
	default:
		// A rejection without a digest speaks of every change, also where an approval has to name one.
		s.against = mismatch(change, g.Name, g.PerChange && !s.reject, spec.Gate, spec.Digest)
	}
	if !s.reject && s.against == "" {
		p, err := e.protected(ctx)
		s.unverified = err != nil || !p.Active || s.created.Before(p.Since)
	}
	return s, true, nil
}

// mismatch says why a statement with this gate and digest is not about the change; empty if it is.
func mismatch(change Change, gateName string, perChange bool, forGate, digest string) string {
	switch {
	case forGate != "" && forGate != gateName:
		return "it is for gate " + clip(forGate)
	case digest != "" && digest != change.Digest:
		return fmt.Sprintf("it is for change %s, and change %s is pending", short(clip(digest)), short(change.Digest))
	case digest == "" && perChange:
		return "it names no digest, and the gate asks for one (perChange)"
	default:
		return ""
	}
}

// targetGroup is the group of an approval's target.
func targetGroup(t v1alpha1.ApprovalTarget) string {
	if t.Group == "" {
		return v1alpha1.GroupVersion.Group
	}
	return t.Group
}

// targetResource is the plural on which the approver was asked for the verb
// approve. config/policy computes it in the same way.
func targetResource(t v1alpha1.ApprovalTarget) string {
	if t.Resource != "" {
		return t.Resource
	}
	return regularPlural(t.Kind)
}

func regularPlural(kind string) string {
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return plural.Resource
}

// approveCommand is a command that approves the change, by the first source that the gate accepts.
func approveCommand(ctx context.Context, change Change, g v1alpha1.Gate, sources sources, exists bool) string {
	kind := change.kind()
	ref := configMapRef(change)
	if sources.configMap && exists {
		return fmt.Sprintf(`kubectl patch configmap %s -n %s --type merge -p '{"data":{"approved":"true","digest":"%s","kind":"%s","gate":"%s"}}'`,
			ref.Name, ref.Namespace, change.Digest, kind.Kind, g.Name)
	}
	if sources.configMap {
		return fmt.Sprintf("kubectl create configmap %s -n %s --from-literal=approved=true --from-literal=digest=%s --from-literal=kind=%s --from-literal=gate=%s",
			ref.Name, ref.Namespace, change.Digest, kind.Kind, g.Name)
	}
	target := fmt.Sprintf("kind: '%s', name: '%s'", kind.Kind, change.Name)
	if kind.Group != v1alpha1.GroupVersion.Group {
		target += ", group: " + kind.Group
	}
	if served, err := change.reader().Kind(ctx, kind); err == nil && served.Resource != regularPlural(kind.Kind) {
		target += ", resource: " + served.Resource
	}
	return fmt.Sprintf(`echo "{apiVersion: %s, kind: %s, metadata: {generateName: approval-, namespace: '%s'}, `+
		`spec: {target: {%s}, gate: '%s', decision: Approve, digest: '%s', approver: '$(kubectl auth whoami -o jsonpath={.status.userInfo.username})'}}" | kubectl create -f -`,
		v1alpha1.GroupVersion, v1alpha1.KindReleaseApproval, change.Namespace, target, g.Name, change.Digest)
}

// shortDigest is how many digits of a digest messages show.
const shortDigest = 12

func short(digest string) string {
	if len(digest) <= shortDigest {
		return digest
	}
	return digest[:shortDigest]
}

// nameOf is the name in a source such as "ReleaseApproval a".
func nameOf(source string) string {
	_, name, _ := strings.Cut(source, " ")
	return name
}

func metaTime(t time.Time) metav1.Time { return metav1.NewTime(t) }
