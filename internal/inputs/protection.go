// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/identity"
)

// The kinds that can protect ReleaseApprovals.
var (
	policyKind  = admissionv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy")
	bindingKind = admissionv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding")
	webhookKind = admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration")

	namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
)

const (
	// protectedFor is how long a protection is believed that depends on the labels of namespaces,
	// which are not watched; unprotectedFor is how long its absence is.
	protectedFor   = time.Minute
	unprotectedFor = 5 * time.Second
)

// protection finds out what vouches for ReleaseApprovals, by watches that start
// with the first question and stay.
type protection struct {
	inputs *Inputs

	mu      sync.Mutex
	watches map[schema.GroupVersionKind]*watch
	// changes counts the changes of what is watched.
	changes int
}

// namespacesProtection is the protection of ReleaseApprovals in some namespaces.
type namespacesProtection struct {
	*protection
	// namespaces that are to be protected; none means all.
	namespaces []string

	mu sync.Mutex
	// known is what was found out after that many changes; until, if set, is when it is to be found out anew.
	known *finding
}

// finding is what was found out about protection.
type finding struct {
	gate.Protection
	changes int
	until   time.Time
}

var _ gate.ApprovalProtection = (*namespacesProtection)(nil)

// Protection tells whether the API server vouches for who made a ReleaseApproval in the namespaces,
// those that the operator watches; none means all. What vouches is a ValidatingAdmissionPolicy with
// the label chartgate.dev/protects that a binding enforces, or a webhook that calls the path on
// which the operator serves the same rule. Either has to cover every ReleaseApproval that is
// created there, and to refuse them when it fails. When that changes, the owners whose gates look at
// ReleaseApprovals are woken.
func (i *Inputs) Protection(namespaces ...string) gate.ApprovalProtection {
	return &namespacesProtection{protection: i.protection, namespaces: namespaces}
}

// Protected returns the protection there is.
func (p *namespacesProtection) Protected(ctx context.Context) (gate.Protection, error) {
	changes := p.seen()
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known != nil && known.changes == changes && (known.until.IsZero() || time.Now().Before(known.until)) {
		return known.Protection, nil
	}
	found, err := p.find(ctx)
	if err != nil {
		return gate.Protection{}, err
	}
	found.changes = changes // what changed meanwhile makes it old
	p.mu.Lock()
	p.known = &found
	p.mu.Unlock()
	return found.Protection, nil
}

func (p *namespacesProtection) find(ctx context.Context) (finding, error) {
	policies, policyErr := list[admissionv1.ValidatingAdmissionPolicy](ctx, p.protection, policyKind)
	bindings, bindingErr := list[admissionv1.ValidatingAdmissionPolicyBinding](ctx, p.protection, bindingKind)
	since, missing := byPolicy(policies, bindings)
	if !since.IsZero() {
		return finding{Protection: gate.Protection{Active: true, Since: since}}, nil
	}
	configurations, webhookErr := list[admissionv1.ValidatingWebhookConfiguration](ctx, p.protection, webhookKind)
	namespaces := &namespaceLabels{read: p.labels, known: map[string]labels.Set{}}
	since, weak, labelsErr := byWebhook(ctx, configurations, p.namespaces, namespaces)
	found := finding{Protection: gate.Protection{Active: !since.IsZero(), Since: since}}
	switch {
	case namespaces.absent || (!found.Active && len(namespaces.known) > 0):
		found.until = time.Now().Add(unprotectedFor)
	case len(namespaces.known) > 0:
		found.until = time.Now().Add(protectedFor)
	}
	if found.Active {
		return found, nil
	}
	if err := errors.Join(policyErr, bindingErr, webhookErr, labelsErr); err != nil {
		return finding{}, err
	}
	found.Missing = missing + ", and " + weak
	return found, nil
}

// labels reads the labels of a namespace.
func (p *protection) labels(ctx context.Context, namespace string) (map[string]string, error) {
	clients, mapping, err := p.inputs.mapping(identity.Operator, namespaceKind)
	if err != nil {
		return nil, err
	}
	obj, err := get(ctx, clients.Dynamic.Resource(mapping.Resource), watchKey{id: identity.Operator, kind: namespaceKind}, mapping.Resource, namespace)
	if err != nil {
		return nil, fmt.Errorf("the labels of namespace %s: %w", namespace, err)
	}
	return obj.GetLabels(), nil
}

// seen is how many changes there have been.
func (p *protection) seen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes
}

// changed outdates what is known, and wakes the owners whose gates look at ReleaseApprovals.
func (p *protection) changed() {
	p.mu.Lock()
	p.changes++
	p.mu.Unlock()
	p.inputs.wakeAll(p.inputs.approvers())
}

// byPolicy is since when a policy and its binding protect approvals; else it says what is missing.
func byPolicy(policies []admissionv1.ValidatingAdmissionPolicy, bindings []admissionv1.ValidatingAdmissionPolicyBinding) (time.Time, string) {
	missing := "no ValidatingAdmissionPolicy of the cluster has the label " + v1alpha1.LabelProtects + ": " + v1alpha1.ProtectsApprovals
	for _, policy := range policies {
		if policy.Labels[v1alpha1.LabelProtects] != v1alpha1.ProtectsApprovals {
			continue
		}
		if !enforced(policy) {
			missing = "ValidatingAdmissionPolicy " + policy.Name + " does not refuse every ReleaseApproval that it can't check"
			continue
		}
		i := slices.IndexFunc(bindings, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == policy.Name && b.DeletionTimestamp == nil && b.Spec.MatchResources == nil &&
				slices.Contains(b.Spec.ValidationActions, admissionv1.Deny)
		})
		if i < 0 {
			missing = "no ValidatingAdmissionPolicyBinding enforces " + policy.Name + " everywhere with action Deny"
			continue
		}
		since := policy.CreationTimestamp.Time
		if created := bindings[i].CreationTimestamp.Time; created.After(since) {
			since = created
		}
		return since, ""
	}
	return time.Time{}, missing
}

// enforced tells whether the policy is asked about every ReleaseApproval, and refuses when it fails.
func enforced(policy admissionv1.ValidatingAdmissionPolicy) bool {
	spec := policy.Spec
	if policy.DeletionTimestamp != nil || spec.ParamKind != nil || len(spec.MatchConditions) > 0 || len(spec.Validations) == 0 ||
		(spec.FailurePolicy != nil && *spec.FailurePolicy != admissionv1.Fail) {
		return false
	}
	match := spec.MatchConstraints
	return match != nil && everything(match.NamespaceSelector) && everything(match.ObjectSelector) && len(match.ExcludeResourceRules) == 0 &&
		slices.ContainsFunc(match.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool {
			return len(r.ResourceNames) == 0 && covers(r.RuleWithOperations)
		})
}

// everything tells whether the selector leaves nothing out.
func everything(s *metav1.LabelSelector) bool {
	return s == nil || (len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0)
}

// covers tells whether the rule is about the creation of ReleaseApprovals.
func covers(r admissionv1.RuleWithOperations) bool {
	has := func(list []string, value string) bool {
		return slices.Contains(list, value) || slices.Contains(list, "*")
	}
	return has(r.APIGroups, v1alpha1.GroupVersion.Group) && has(r.APIVersions, v1alpha1.GroupVersion.Version) &&
		has(r.Resources, v1alpha1.ProtectsApprovals) &&
		(slices.Contains(r.Operations, admissionv1.Create) || slices.Contains(r.Operations, admissionv1.OperationAll)) &&
		(r.Scope == nil || *r.Scope != admissionv1.ClusterScope)
}

// list returns the objects of a cluster-scoped kind.
func list[T any](ctx context.Context, p *protection, gvk schema.GroupVersionKind) ([]T, error) {
	w, err := p.watch(gvk)
	if err != nil {
		return nil, err
	}
	store, err := w.wait(ctx, nil)
	if err != nil {
		return nil, err
	}
	if store == nil {
		return nil, readError(w.refusal(), w.key, w.mapping.Resource, "list")
	}
	var all []T
	for _, obj := range store.List() {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		var item T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &item); err != nil {
			return nil, fmt.Errorf("%s %s: %w", gvk.Kind, u.GetName(), err)
		}
		all = append(all, item)
	}
	return all, nil
}

// watch returns the operator's own watch of the kind. No owner holds it, so it stays.
func (p *protection) watch(gvk schema.GroupVersionKind) (*watch, error) {
	clients, mapping, err := p.inputs.mapping(identity.Operator, gvk)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w, ok := p.watches[gvk]; ok {
		return w, nil
	}
	w := p.inputs.newWatch(watchKey{id: identity.Operator, kind: gvk}, mapping, clients)
	w.onChange = p.changed
	w.changed = func(_, _ metav1.Object) { p.changed() }
	p.watches[gvk] = w
	w.start()
	return w, nil
}
