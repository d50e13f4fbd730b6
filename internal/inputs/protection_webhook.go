// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/webhook"
)

// namespaceLabels are the labels of namespaces, each read once.
type namespaceLabels struct {
	read  func(ctx context.Context, namespace string) (map[string]string, error)
	known map[string]labels.Set
	// absent tells that one of them does not exist.
	absent bool
}

// match tells whether the namespace has what the selector asks for. One that
// does not exist does: nothing can be created there.
func (n *namespaceLabels) match(ctx context.Context, namespace string, selector labels.Selector) (bool, error) {
	has, ok := n.known[namespace]
	if !ok {
		found, err := n.read(ctx, namespace)
		if errors.Is(err, gate.ErrNotFound) {
			n.absent = true
			return true, nil
		}
		if err != nil {
			return false, err
		}
		has = found
		n.known[namespace] = has
	}
	return selector.Matches(has), nil
}

// byWebhook is since when a webhook protects approvals in the namespaces (none
// means all); else it says what is missing.
//
// A webhook is known by the path that it calls. OLM chooses the name of the
// configuration, and limits it by labels to the namespaces of an OperatorGroup.
func byWebhook(ctx context.Context, configurations []admissionv1.ValidatingWebhookConfiguration, namespaces []string, known *namespaceLabels) (since time.Time, missing string, err error) {
	missing = "no ValidatingWebhookConfiguration calls " + webhook.Path
	for _, c := range configurations {
		for _, hook := range c.Webhooks {
			if calls(hook.ClientConfig) != webhook.Path {
				continue
			}
			if c.DeletionTimestamp != nil || !asksAlways(hook) {
				missing = "ValidatingWebhookConfiguration " + c.Name + " does not refuse every ReleaseApproval that it can't check"
				continue
			}
			without, coverErr := uncovered(ctx, hook.NamespaceSelector, namespaces, known)
			if coverErr != nil {
				err = errors.Join(err, fmt.Errorf("ValidatingWebhookConfiguration %s: %w", c.Name, coverErr))
				continue
			}
			if without != "" {
				missing = "ValidatingWebhookConfiguration " + c.Name + " leaves out " + without
				continue
			}
			if created := c.CreationTimestamp.Time; since.IsZero() || created.Before(since) {
				since = created
			}
		}
	}
	if !since.IsZero() {
		return since, "", nil
	}
	return since, missing, err
}

// calls is the path that a webhook calls.
func calls(to admissionv1.WebhookClientConfig) string {
	switch {
	case to.Service != nil && to.Service.Path != nil:
		return *to.Service.Path
	case to.URL != nil:
		if u, err := url.Parse(*to.URL); err == nil {
			return u.Path
		}
	}
	return ""
}

// asksAlways tells whether the webhook is asked about every ReleaseApproval in
// the namespaces that it covers, which is refused when it can't be.
func asksAlways(hook admissionv1.ValidatingWebhook) bool {
	return (hook.FailurePolicy == nil || *hook.FailurePolicy == admissionv1.Fail) &&
		len(hook.MatchConditions) == 0 && everything(hook.ObjectSelector) && slices.ContainsFunc(hook.Rules, covers)
}

// uncovered names what the selector leaves out of the namespaces; empty if nothing.
func uncovered(ctx context.Context, s *metav1.LabelSelector, namespaces []string, known *namespaceLabels) (string, error) {
	if everything(s) {
		return "", nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "", fmt.Errorf("its namespaceSelector: %w", err)
	}
	if len(namespaces) == 0 {
		return "the namespaces without " + selector.String(), nil
	}
	for _, namespace := range namespaces {
		matches, err := known.match(ctx, namespace, selector)
		if err != nil {
			return "", err
		}
		if !matches {
			return fmt.Sprintf("namespace %s, which has not the labels %s", namespace, selector), nil
		}
	}
	return "", nil
}
