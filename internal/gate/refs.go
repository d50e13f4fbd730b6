// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// same tells whether two gates ask for the same.
func same(a, b v1alpha1.Gate) bool {
	a.Description, b.Description = "", ""
	for _, g := range []*v1alpha1.Gate{&a, &b} {
		yes, seconds := mandatory(*g), int32(checkInterval(*g).Seconds())
		g.Mandatory, g.CheckInterval = &yes, &seconds
	}
	return equality.Semantic.DeepEqual(a, b)
}

// refOf is what the gate refers to: its ref, whose fields default to the kind
// and namespace given and to the gate's name.
func refOf(g v1alpha1.Gate, kind schema.GroupVersionKind, namespace string) (Ref, error) {
	ref := Ref{GroupVersionKind: kind, Namespace: namespace, Name: g.Name}
	if r := g.Ref; r != nil {
		if r.APIVersion != "" {
			gv, err := schema.ParseGroupVersion(r.APIVersion)
			if err != nil {
				return ref, &InvalidError{Gate: g.Name, Field: fieldRef, Problem: fmt.Sprintf("%q is not an apiVersion", r.APIVersion), Hint: "use one such as apps/v1"}
			}
			ref.GroupVersionKind = gv.WithKind(ref.GroupVersionKind.Kind)
		}
		if r.Kind != "" {
			ref.GroupVersionKind.Kind = r.Kind
		}
		if r.Name != "" {
			ref.Name = r.Name
		}
		if r.Namespace != "" {
			ref.Namespace = r.Namespace
		}
	}
	for _, name := range []string{ref.Name, ref.Namespace} {
		if problems := content.IsPathSegmentName(name); len(problems) > 0 {
			return ref, &InvalidError{Gate: g.Name, Field: fieldRef, Problem: fmt.Sprintf("%q is no name of an object: %s", name, problems[0])}
		}
	}
	return ref, nil
}

// fixedRef is what a gate refers to whose type looks at one kind only.
func fixedRef(change Change, g v1alpha1.Gate, kind schema.GroupVersionKind) (Ref, error) {
	ref, err := refOf(g, kind, change.target())
	if err == nil && ref.GroupVersionKind != kind {
		err = &InvalidError{
			Gate: g.Name, Field: fieldRef, Problem: fmt.Sprintf("a gate of type %s looks at a %s, not at a %s", g.Type, kind.Kind, ref.GroupVersionKind.Kind),
			Hint: "leave out apiVersion and kind, or use a gate of type DependencyReady",
		}
	}
	return ref, err
}

// secretless refuses a reference to a Secret, whose content no gate may see.
func secretless(g v1alpha1.Gate, ref Ref) error {
	if gk := ref.GroupVersionKind.GroupKind(); gk == secretKind.GroupKind() {
		return &InvalidError{
			Gate: g.Name, Field: fieldRef, Problem: fmt.Sprintf("a gate of type %s can't refer to a Secret", g.Type),
			Hint: "use a gate of type SecretExists, with keys for what the Secret must hold",
		}
	}
	return nil
}

// watchable are the references, if there was no error and they stay at home.
func watchable(change Change, ref Ref, err error) []Ref {
	if err != nil || !change.home(ref.Namespace) {
		return nil
	}
	return []Ref{ref}
}

// away is the decision about a reference that leaves home; nil if it stays.
func away(change Change, ref Ref) *Decision {
	if change.home(ref.Namespace) {
		return nil
	}
	allowed := "namespace " + change.Namespace
	if change.target() != change.Namespace {
		allowed = fmt.Sprintf("namespaces %s and %s", change.Namespace, change.target())
	}
	return notAllowed(fmt.Sprintf("the gate refers to %s, but may look at %s only", ref, allowed), change)
}

func notAllowed(what string, change Change) *Decision {
	return &Decision{
		Verdict: Hold, Reason: ReasonReferenceNotAllowed,
		Message: fmt.Sprintf("%s; refer to another object, or have the operator's administrator set allowCrossNamespaceRefs: true for %s in watches.yaml", what, change.kind().Kind),
	}
}

// located settles where the object is: it refuses references that leave home,
// and takes the namespace off cluster-scoped objects.
func located(ctx context.Context, change Change, ref *Ref) (*Decision, error) {
	if d := away(change, *ref); d != nil {
		return d, nil
	}
	kind, err := change.reader().Kind(ctx, ref.GroupVersionKind)
	if err != nil {
		return nil, readError(*ref, err)
	}
	if kind.Namespaced {
		return nil, nil
	}
	ref.Namespace = ""
	if !change.CrossNamespaceRefs {
		return notAllowed(fmt.Sprintf("the gate refers to %s, which is in no namespace", ref), change), nil
	}
	return nil, nil
}

// readError names the object that could not be read.
func readError(ref Ref, err error) error {
	if noKind := (*NoKindError)(nil); errors.As(err, &noKind) {
		return err
	}
	return fmt.Errorf("%s: %w", ref, err)
}

// kubectlName is the object as arguments of kubectl.
func kubectlName(ref Ref) string {
	s := strings.ToLower(ref.GroupVersionKind.Kind)
	if g := ref.GroupVersionKind.Group; g != "" {
		s += "." + g
	}
	s += " " + shellQuote(ref.Name)
	if ref.Namespace != "" {
		s += " -n " + shellQuote(ref.Namespace)
	}
	return s
}

// maxQuote bounds what a message takes over from an object, in bytes.
const maxQuote = 300

// clip shortens what is taken over from elsewhere, and puts it on one line.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= maxQuote {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuote], "") + "..."
}
