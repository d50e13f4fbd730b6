// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const rbacGroup = rbacv1.GroupName

var (
	rolesResource        = schema.GroupResource{Group: rbacGroup, Resource: "roles"}
	clusterRolesResource = schema.GroupResource{Group: rbacGroup, Resource: "clusterroles"}
)

// passedOn is what a chart's roles and bindings give to others. The API server lets
// nobody give a right that they don't hold themselves.
type passedOn struct {
	namespaced, cluster rights
	messages            []Message
}

// passOn works out what the operator has to hold to make the object, which the
// chart has at the place. text is that file: a name that is written there is the
// same for every release. made tells whether the release makes a role itself.
func (p *passedOn) passOn(obj *unstructured.Unstructured, at place, text string, made func(kind, name string) bool) error {
	if obj.GroupVersionKind().Group != rbacGroup {
		return nil
	}
	into, kind := p.namespaced, obj.GetKind()
	if strings.HasPrefix(kind, "Cluster") {
		into = p.cluster
	}
	where := func(format string, args ...any) {
		p.messages = append(p.messages, Message{File: at.file, Line: at.line, Text: kind + " " + shownName(obj.GetName()) + " " + fmt.Sprintf(format, args...)})
	}
	switch kind {
	case "Role", "ClusterRole":
		var role rbacv1.ClusterRole // a Role is one without aggregation
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &role); err != nil {
			return fmt.Errorf("%s: %s %s: %w", at.file, kind, obj.GetName(), err)
		}
		if role.AggregationRule != nil {
			where("takes its rules from other roles: the API server lets only who holds every right make it; let a cluster administrator make it, outside of the chart")
			return nil
		}
		for _, rule := range role.Rules {
			if problem := addRule(into, rule, text); problem != "" {
				where("grants %s: the operator would have to hold that itself, and no rule is made for it; name in the chart what is meant, or grant it to the operator by a role of your own", problem)
			}
		}
	case "RoleBinding", "ClusterRoleBinding":
		var binding rbacv1.ClusterRoleBinding // they differ in scope alone
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &binding); err != nil {
			return fmt.Errorf("%s: %s %s: %w", at.file, kind, obj.GetName(), err)
		}
		ref := binding.RoleRef
		if made(ref.Kind, ref.Name) {
			return nil // its rules are held
		}
		if name := shownName(ref.Name); name != ref.Name || !written(text, ref.Name) {
			where("binds %s %s, whose name comes from values: grant the operator the verb bind on it", ref.Kind, name)
			return nil
		}
		resource := rolesResource
		if ref.Kind == "ClusterRole" {
			resource = clusterRolesResource
		}
		into[right{group: resource.Group, resource: resource.Resource, name: ref.Name, verb: "bind"}] = true
	}
	return nil
}

// addRule adds what a rule grants, and says what of it can't be added.
func addRule(into rights, rule rbacv1.PolicyRule, text string) string {
	for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
		if slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "*") }) {
			return fmt.Sprintf("verbs [%s] on [%s] of API groups [%s]", strings.Join(rule.Verbs, ", "),
				strings.Join(slices.Concat(rule.Resources, rule.NonResourceURLs), ", "), strings.Join(rule.APIGroups, ", "))
		}
	}
	names := rule.ResourceNames
	if len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return shownName(n) != n || !written(text, n) }) {
		names = []string{""} // other releases have other names
	}
	for _, verb := range rule.Verbs {
		for _, url := range rule.NonResourceURLs {
			into[right{url: url, verb: verb}] = true
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					into[right{group: group, resource: resource, name: name, verb: verb}] = true
				}
			}
		}
	}
	return ""
}

// shownName is a name as people know it: of what is rendered, some have the release's name in them.
func shownName(name string) string {
	return strings.NewReplacer(releaseName, "RELEASE", releaseNamespace, "NAMESPACE").Replace(name)
}

// written tells whether the template's text holds the name as a word.
func written(text, name string) bool {
	return regexp.MustCompile(`(^|[\s"'\[{,])` + regexp.QuoteMeta(name) + `($|[\s"'\]},])`).MatchString(text)
}
