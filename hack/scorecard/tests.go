// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/chartgate/chartgate/hack/olm"
)

// A test returns what is wrong with a bundle, each with where it is, or an error if the bundle can't be read.
type test func(*olm.Bundle) ([]string, error)

// tests by the names that config/scorecard has.
var tests = map[string]test{
	"kinds-are-gated":           kindsAreGated,
	"rights-are-bounded":        rightsAreBounded,
	"approvals-are-vouched-for": approvalsAreVouchedFor,
}

const (
	category     = "chartgate"
	approvalKind = "ReleaseApproval"
)

// kindsAreGated wants each kind that charts are released for to have gates, settings of its release, the common
// status, and the columns that people look for.
func kindsAreGated(bundle *olm.Bundle) ([]string, error) {
	crds, err := bundle.CRDs()
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(crds)) {
		crd := crds[name]
		if crd.Spec.Names.Kind == approvalKind {
			continue
		}
		if !slices.Contains(crd.Spec.Names.Categories, category) {
			problems = append(problems, fmt.Sprintf("%s: it is not in the category %s: kubectl get %s would not list it", name, category, category))
		}
		for i := range crd.Spec.Versions {
			v := &crd.Spec.Versions[i]
			for _, problem := range ungated(v) {
				problems = append(problems, fmt.Sprintf("%s, version %s: %s", name, v.Name, problem))
			}
		}
	}
	return problems, nil
}

func ungated(v *apiextensionsv1.CustomResourceDefinitionVersion) []string {
	var problems []string
	if v.Subresources == nil || v.Subresources.Status == nil {
		problems = append(problems, "it has no status subresource")
	}
	schema := &apiextensionsv1.JSONSchemaProps{}
	if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
		schema = v.Schema.OpenAPIV3Schema
	}
	for field, names := range map[string][]string{
		"spec":   {"gates", "release"},
		"status": {"conditions", "gates", "message", "observedGeneration", "pending", "phase", "revision"},
	} {
		for _, name := range names {
			if _, found := schema.Properties[field].Properties[name]; !found {
				problems = append(problems, fmt.Sprintf("it has no field %s.%s", field, name))
			}
		}
	}
	for _, want := range []string{"Phase", "Ready", "Gates", "Revision", "Age"} {
		if !slices.ContainsFunc(v.AdditionalPrinterColumns, func(c apiextensionsv1.CustomResourceColumnDefinition) bool { return c.Name == want }) {
			problems = append(problems, "it has no column "+want)
		}
	}
	slices.Sort(problems)
	return problems
}

// everywhere are the resources in no namespace that the operator has rights to in the whole cluster, whatever the
// install mode. All else is a matter of the namespaces that it serves.
var everywhere = map[string]bool{
	"authentication.k8s.io/tokenreviews":                             true,
	"authorization.k8s.io/subjectaccessreviews":                      true,
	"admissionregistration.k8s.io/validatingadmissionpolicies":       true,
	"admissionregistration.k8s.io/validatingadmissionpolicybindings": true,
	"admissionregistration.k8s.io/validatingwebhookconfigurations":   true,
	"/namespaces": true,
}

// rightsAreBounded wants no rule to hold more than it names, and none in the whole cluster for kinds in namespaces.
func rightsAreBounded(bundle *olm.Bundle) ([]string, error) {
	var problems []string
	for _, field := range []string{"permissions", "clusterPermissions"} {
		rules, err := rulesOf(bundle, field)
		if err != nil {
			return nil, err
		}
		for i, rule := range rules {
			for where, list := range map[string][]string{"apiGroups": rule.APIGroups, "resources": rule.Resources, "verbs": rule.Verbs} {
				if slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "*") }) {
					problems = append(problems, fmt.Sprintf("%s, rule %d: %s is %q", field, i+1, where, list))
				}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					if field == "clusterPermissions" && !everywhere[group+"/"+resource] {
						problems = append(problems, fmt.Sprintf("%s, rule %d: %s of group %q in the whole cluster", field, i+1, resource, group))
					}
				}
			}
		}
	}
	slices.Sort(problems)
	return problems, nil
}

func rulesOf(bundle *olm.Bundle, field string) ([]rbacv1.PolicyRule, error) {
	accounts, found, err := unstructured.NestedSlice(bundle.CSV().Object, "spec", "install", "spec", field)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", bundle.Dir, err)
	}
	if !found {
		return nil, fmt.Errorf("bundle %s: the ClusterServiceVersion has no spec.install.spec.%s", bundle.Dir, field)
	}
	var rules []rbacv1.PolicyRule
	for _, item := range accounts {
		var account struct {
			Rules []rbacv1.PolicyRule `json:"rules"`
		}
		object, _ := item.(map[string]any)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &account); err != nil {
			return nil, fmt.Errorf("bundle %s: %s: %w", bundle.Dir, field, err)
		}
		rules = append(rules, account.Rules...)
	}
	return rules, nil
}

// approvalsAreVouchedFor wants a webhook to be asked about every ReleaseApproval, which holds up
// approvals while it can't be reached. Without it they would not count.
func approvalsAreVouchedFor(bundle *olm.Bundle) ([]string, error) {
	webhooks, _, err := unstructured.NestedSlice(bundle.CSV().Object, "spec", "webhookdefinitions")
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", bundle.Dir, err)
	}
	for _, item := range webhooks {
		webhook, _ := item.(map[string]any)
		if !asksAbout(webhook, "releaseapprovals", "CREATE") {
			continue
		}
		var problems []string
		for field, want := range map[string]string{"type": "ValidatingAdmissionWebhook", "failurePolicy": "Fail", "sideEffects": "None"} {
			if got := webhook[field]; got != want {
				problems = append(problems, fmt.Sprintf("webhook %v: %s is %v, not %s", webhook["generateName"], field, got, want))
			}
		}
		slices.Sort(problems)
		return problems, nil
	}
	return []string{"no webhook is asked about new ReleaseApprovals"}, nil
}

func asksAbout(webhook map[string]any, resource, operation string) bool {
	rules, _ := webhook["rules"].([]any)
	return slices.ContainsFunc(rules, func(item any) bool {
		rule, _ := item.(map[string]any)
		resources, _ := rule["resources"].([]any)
		operations, _ := rule["operations"].([]any)
		return slices.Contains(resources, any(resource)) && slices.Contains(operations, any(operation))
	})
}
