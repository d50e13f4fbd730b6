// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/webhook"
)

// shippedWebhook is what config/webhook ships.
func shippedWebhook(t *testing.T) admissionv1.ValidatingWebhookConfiguration {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "config", "webhook", "base", "validating_webhook_configuration.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c admissionv1.ValidatingWebhookConfiguration
	if err := yaml.UnmarshalStrict(content, &c); err != nil {
		t.Fatal(err)
	}
	c.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
	return c
}

// fixedLabels are the labels of the namespaces team-a and team-b.
func fixedLabels() *namespaceLabels {
	return &namespaceLabels{known: map[string]labels.Set{}, read: func(_ context.Context, namespace string) (map[string]string, error) {
		switch namespace {
		case "team-a":
			return map[string]string{"olm.operatorgroup.uid/1234": ""}, nil
		case "team-b":
			return nil, nil
		case "team-secret":
			return nil, errors.New("forbidden")
		default:
			return nil, gate.ErrNotFound
		}
	}}
}

func TestOnlyAWebhookThatIsAlwaysAskedProtects(t *testing.T) {
	ignore, cluster := admissionv1.Ignore, admissionv1.ClusterScope
	url := func(path string) *string { u := "https://127.0.0.1:9443" + path; return &u }
	group := &metav1.LabelSelector{MatchLabels: map[string]string{"olm.operatorgroup.uid/1234": ""}}
	type hook = admissionv1.ValidatingWebhook
	for what, c := range map[string]struct {
		edit       func(*hook)
		namespaces []string
		missing    string // empty: it protects
		err        bool
	}{
		"as it is shipped":                 {func(*hook) {}, nil, "", false},
		"as OLM makes it for one group":    {func(h *hook) { h.NamespaceSelector = group }, []string{"team-a"}, "", false},
		"under another name":               {func(h *hook) { h.Name = "other.example.com" }, nil, "", false},
		"reached by a URL":                 {func(h *hook) { h.ClientConfig = admissionv1.WebhookClientConfig{URL: url(webhook.Path)} }, nil, "", false},
		"with a namespace that is gone":    {func(h *hook) { h.NamespaceSelector = group }, []string{"team-a", "gone"}, "", false},
		"on another path":                  {func(h *hook) { h.ClientConfig = admissionv1.WebhookClientConfig{URL: url("/x")} }, nil, "no ValidatingWebhookConfiguration calls", false},
		"without a path":                   {func(h *hook) { h.ClientConfig.Service.Path = nil }, nil, "no ValidatingWebhookConfiguration calls", false},
		"lenient when it fails":            {func(h *hook) { h.FailurePolicy = &ignore }, nil, "does not refuse every", false},
		"under a condition":                {func(h *hook) { h.MatchConditions = []admissionv1.MatchCondition{{}} }, nil, "does not refuse every", false},
		"for some approvals":               {func(h *hook) { h.ObjectSelector = group }, nil, "does not refuse every", false},
		"on updates only":                  {func(h *hook) { h.Rules[0].Operations = []admissionv1.OperationType{admissionv1.Update} }, nil, "does not refuse every", false},
		"of something else":                {func(h *hook) { h.Rules[0].Resources = []string{"guestbooks"} }, nil, "does not refuse every", false},
		"in no namespace":                  {func(h *hook) { h.Rules[0].Scope = &cluster }, nil, "does not refuse every", false},
		"for one group, others watched":    {func(h *hook) { h.NamespaceSelector = group }, []string{"team-a", "team-b"}, "leaves out namespace team-b", false},
		"for one group, all watched":       {func(h *hook) { h.NamespaceSelector = group }, nil, "leaves out the namespaces without", false},
		"where labels can't be read":       {func(h *hook) { h.NamespaceSelector = group }, []string{"team-secret"}, "", true},
		"with a selector that is no label": {func(h *hook) { h.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"!": ""}} }, []string{"team-a"}, "", true},
	} {
		t.Run(what, func(t *testing.T) {
			shipped := shippedWebhook(t)
			c.edit(&shipped.Webhooks[0])
			since, missing, err := byWebhook(t.Context(), []admissionv1.ValidatingWebhookConfiguration{shipped}, c.namespaces, fixedLabels())
			protects := c.missing == "" && !c.err
			if since.IsZero() == protects || (err != nil) != c.err || !strings.Contains(missing, c.missing) {
				t.Errorf("since %s, missing %q, error %v", since, missing, err)
			}
		})
	}
}

func TestTheOldestWebhookThatProtectsCounts(t *testing.T) {
	older, newer, weak, going := shippedWebhook(t), shippedWebhook(t), shippedWebhook(t), shippedWebhook(t)
	ignore := admissionv1.Ignore
	newer.CreationTimestamp = metav1.NewTime(time.Unix(2000, 0))
	weak.CreationTimestamp = metav1.NewTime(time.Unix(10, 0))
	weak.Webhooks[0].FailurePolicy = &ignore
	going.CreationTimestamp = metav1.NewTime(time.Unix(20, 0))
	going.DeletionTimestamp = &newer.CreationTimestamp
	since, missing, err := byWebhook(t.Context(), []admissionv1.ValidatingWebhookConfiguration{newer, weak, going, older}, nil, fixedLabels())
	if since.Unix() != 1000 || missing != "" || err != nil {
		t.Errorf("since %s, missing %q, error %v", since, missing, err)
	}
}

func TestProtectionByAWebhookOfOneNamespace(t *testing.T) {
	e := newEnv(t, "")
	configuration := shippedWebhook(t)
	configuration.ObjectMeta = metav1.ObjectMeta{GenerateName: configuration.Name + "-"}
	configuration.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"olm.operatorgroup.uid/1234": ""}}
	client := e.admin.Kubernetes.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	created, err := client.Create(t.Context(), &configuration, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Delete(context.WithoutCancel(t.Context()), created.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	one, all := e.Protection(e.namespace), e.Protection()
	e.eventually("the namespace is not covered", func() error {
		if p, err := one.Protected(t.Context()); err != nil || p.Active || !strings.Contains(p.Missing, "leaves out namespace "+e.namespace) {
			return fmt.Errorf("%+v, %w", p, err)
		}
		return nil
	})
	patch := []byte(`{"metadata":{"labels":{"olm.operatorgroup.uid/1234":""}}}`)
	if _, err := e.admin.Kubernetes.CoreV1().Namespaces().Patch(t.Context(), e.namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	e.eventually("the namespace is covered", func() error {
		if p, err := one.Protected(t.Context()); err != nil || !p.Active || !p.Since.Equal(created.CreationTimestamp.Time) {
			return fmt.Errorf("%+v, %w", p, err)
		}
		return nil
	})
	if p, err := all.Protected(t.Context()); err != nil || p.Active || !strings.Contains(p.Missing, "leaves out the namespaces without") {
		t.Errorf("of all namespaces: %+v, %v", p, err)
	}
}
