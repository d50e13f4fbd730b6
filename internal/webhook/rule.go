// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"strings"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// Right is what an approver must hold: the verb approve on one resource.
type Right struct {
	// Group and Resource of the target, which is the regular plural of its kind
	// unless the approval says otherwise.
	Group, Resource string
	// Namespace and Name of the target.
	Namespace, Name string
	// Kind that the approval names.
	Kind string
}

// Verb that approvers hold on what they approve.
const Verb = "approve"

// Examine judges an approval that the user creates in the namespace, as far as
// that takes no request: it returns the right that the user must hold for it, or
// why it is refused whatever rights there are.
//
// It does not decide whether the right is on the target's own resource: naming
// another resource gets nobody further, since an approval counts only if its
// resource is that of its target.
func Examine(approval *v1alpha1.ReleaseApproval, user, namespace string) (right Right, refusal string) {
	spec := approval.Spec
	if spec.Approver != user || user == "" {
		return Right{}, fmt.Sprintf("spec.approver must be the user who approves: %s; it is %q (kubectl auth whoami shows your name)", user, spec.Approver)
	}
	right = Right{
		Group: spec.Target.Group, Resource: spec.Target.Resource, Kind: spec.Target.Kind,
		Namespace: namespace, Name: spec.Target.Name,
	}
	if right.Group == "" {
		right.Group = v1alpha1.GroupVersion.Group
	}
	if right.Resource == "" {
		right.Resource = plural(spec.Target.Kind)
	}
	return right, ""
}

// plural is the regular plural of a kind, by the same steps as config/policy takes.
func plural(kind string) string {
	singular := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(singular, "s"):
		return singular + "es"
	case strings.HasSuffix(singular, "y"):
		return strings.TrimSuffix(singular, "y") + "ies"
	default:
		return singular + "s"
	}
}

// Missing says that the user does not hold the right, and how to grant it.
func (r Right) Missing(user string) string {
	return fmt.Sprintf("%s may not %s %s.%s %s in namespace %s: RBAC grants no verb %s on it; grant it: %s; "+
		"if that is not the resource of kind %s, set spec.target.group and spec.target.resource",
		user, Verb, r.Resource, r.Group, r.Name, r.Namespace, Verb, r.grant(user), r.Kind)
}

// grant is the command that gives the user the right, on all resources of the
// kind in the namespace. It works as well where the role is there already.
func (r Right) grant(user string) string {
	const maxName = 63
	subject := "--user=" + shellQuote(user)
	if sa, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		subject = "--serviceaccount=" + shellQuote(sa)
	}
	role := Verb + "-" + r.Resource
	binding := role + "-" + nameable(user)
	binding = strings.TrimRight(binding[:min(len(binding), maxName)], "-")
	return fmt.Sprintf("kubectl create role %[1]s -n %[2]s --verb=%[3]s --resource=%[4]s --dry-run=client -o yaml | kubectl apply -f - && "+
		"kubectl create rolebinding %[5]s -n %[2]s --role=%[1]s %[6]s",
		role, r.Namespace, Verb, shellQuote(r.Resource+"."+r.Group), binding, subject)
}

// nameable turns a user's name into one that an object may have.
func nameable(user string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(user))
}

// shellQuote quotes a word for a shell, where that is needed.
func shellQuote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/@=,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
