// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Denied is a right that somebody lacks, as the API server says.
type Denied struct {
	// User who asked.
	User string
	// Verb that is missing, such as create.
	Verb string
	// Group and Resource that it is missing on; a subresource is behind a slash.
	Group, Resource string
	// Namespace in which it is missing. Empty: at the cluster's scope.
	Namespace string
}

// denial is how an authorizer's refusal reads in the API server's answers. What is
// no name (a tenant may ask for a namespace of any spelling) is not taken: it
// would get into commands that people run.
var denial = regexp.MustCompile(`User "([^"]*)" cannot ([\w:-]+) resource "([a-z0-9./-]+)" in API group "([a-z0-9.-]*)" (?:in the namespace "([a-z0-9][a-z0-9-]*)"|at the cluster scope)`)

// Denials returns the rights that were found missing on the way to the error,
// each once: by namespace, those of the whole cluster last. What is forbidden for another
// reason (a quota, a policy, a namespace that is going away) is none.
func Denials(err error) []Denied {
	var all []Denied
	each(err, func(_ string, d Denied) {
		if !slices.Contains(all, d) {
			all = append(all, d)
		}
	})
	slices.SortStableFunc(all, func(a, b Denied) int {
		if (a.Namespace == "") != (b.Namespace == "") {
			return strings.Compare(b.Namespace, a.Namespace)
		}
		return strings.Compare(a.Namespace, b.Namespace)
	})
	return all
}

// Plain is the text with the API server's words for each right that was found
// missing on the way to the error taken down to one: what they say is in Denials.
func Plain(text string, err error) string {
	each(err, func(words string, _ Denied) { text = strings.ReplaceAll(text, words, "forbidden") })
	return text
}

// each visits the refusals in an error and in all that it wraps.
func each(err error, visit func(words string, d Denied)) {
	if err == nil {
		return
	}
	if _, isStatus := err.(apierrors.APIStatus); isStatus && apierrors.IsForbidden(err) {
		if m := denial.FindStringSubmatch(err.Error()); m != nil {
			visit(err.Error(), Denied{User: m[1], Verb: m[2], Resource: m[3], Group: m[4], Namespace: m[5]})
		}
	}
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case interface{ Unwrap() error }:
		each(e.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			each(err, visit)
		}
	}
}

// Sentence says who may not do what, and where.
func Sentence(missing []Denied) string {
	var b strings.Builder
	for i, d := range missing {
		switch {
		case i == 0:
			b.WriteString(d.User + " may not ")
		case d.User != missing[i-1].User:
			b.WriteString(", and " + d.User + " may not ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(d.Verb + " " + d.resource())
		if i+1 == len(missing) || missing[i+1].Namespace != d.Namespace || missing[i+1].User != d.User {
			b.WriteString(" " + d.where())
		}
	}
	return b.String()
}

// Impersonation tells whether what is missing is the right to act as a ServiceAccount.
func (d Denied) Impersonation() bool { return strings.HasPrefix(d.Verb, "impersonate") }

func (d Denied) where() string {
	if d.Namespace == "" {
		return "in the whole cluster"
	}
	return "in namespace " + d.Namespace
}

// resource as kubectl names it: plural.group/subresource.
func (d Denied) resource() string {
	name, sub, hasSub := strings.Cut(d.Resource, "/")
	if d.Group != "" {
		name += "." + d.Group
	}
	if hasSub {
		name += "/" + sub
	}
	return name
}

// Grants returns commands that give the ServiceAccount what it was found to lack:
// a role and its binding for each namespace, and last for the whole cluster.
// Whoever releases an object also has to read, watch, repair and delete it, so
// they give the verbs, and not only the one that was missed.
func (i Identity) Grants(missing []Denied, verbs []string) []string {
	if len(missing) == 0 {
		return nil
	}
	byNamespace := map[string][]string{}
	for _, d := range missing {
		byNamespace[d.Namespace] = append(byNamespace[d.Namespace], d.resource())
	}
	namespaces := slices.Sorted(maps.Keys(byNamespace))
	if namespaces[0] == "" {
		namespaces = append(namespaces[1:], "")
	}
	grants := make([]string, 0, len(namespaces))
	for _, ns := range namespaces {
		resources := byNamespace[ns]
		slices.Sort(resources)
		resources = slices.Compact(resources)
		kind, in, name := "role", " -n "+ns, i.ServiceAccount
		if ns == "" {
			kind, in = "clusterrole", ""
		}
		if ns != i.Namespace {
			name = i.Namespace + "-" + name
		}
		plural, _, _ := strings.Cut(strings.ReplaceAll(resources[0], "/", "-"), ".")
		if name += "-" + plural; !slices.Contains(verbs, "create") {
			name += "-read"
		}
		grants = append(grants, fmt.Sprintf("kubectl create %[1]s %[2]s%[3]s --verb=%[4]s --resource=%[5]s && kubectl create %[1]sbinding %[2]s%[3]s --%[1]s=%[2]s --serviceaccount=%[6]s:%[7]s",
			kind, name, in, strings.Join(verbs, ","), strings.Join(resources, ","), i.Namespace, i.ServiceAccount))
	}
	return grants
}

// Rule is the rule that gives what is missing, in the form of a role's YAML.
func (d Denied) Rule(verbs []string) string {
	return fmt.Sprintf("{apiGroups: [%q], resources: [%s], verbs: [%s]}", d.Group, d.Resource, strings.Join(verbs, ", "))
}
