// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// unrendered adds what the templates hold and no rendering reached.
func (a *analysis) unrendered() {
	for _, m := range a.mentions {
		if !m.test {
			a.mention(m)
		}
	}
	for _, u := range a.open {
		text := fmt.Sprintf("the kind comes from values or a function (%s): renderings show some of the kinds there may be; add a sample for each (--sample)", u.source)
		if u.document {
			text = fmt.Sprintf("whole objects come from values or a function (%s): what they may be is for you to say, by rules in a role of your own", u.source)
		}
		a.tell(Message{File: u.file, Line: u.line, Text: text})
	}
	for _, l := range a.templates.lookups() {
		if l.unclear {
			a.tell(Message{File: l.file, Line: l.line, Text: fmt.Sprintf("what is looked up is not written there (%s): only what renderings asked for has a rule", l.source)})
			continue
		}
		verb := "get"
		if l.list {
			verb = "list"
		}
		gk := schema.FromAPIVersionAndKind(l.apiVersion, l.kind).GroupKind()
		namespace := releaseNamespace
		if l.everywhere {
			namespace = ""
		}
		a.lookup(l.place, lookedUp{kind: gk, verb: verb, namespace: namespace})
	}
}

// mention adds an object that a template prints, if no rendering made its kind.
func (a *analysis) mention(m mention) {
	gk := schema.FromAPIVersionAndKind(m.apiVersion, m.kind).GroupKind()
	if m.apiVersion == "" {
		known := func(other mention) bool {
			return other.place == m.place && other.kind == m.kind && other.apiVersion != ""
		}
		if slices.ContainsFunc(a.mentions, known) {
			return // what else it may be is another version of the same
		}
		for seen := range a.seen {
			if seen.Kind == m.kind {
				return
			}
		}
		named, ok := a.kinds.byName(m.kind)
		if !ok {
			a.tell(Message{File: m.file, Line: m.line, Text: fmt.Sprintf(
				"no rendering reached this %s, and its apiVersion is not written there: it has no rule; add a sample that makes it (--sample)", m.kind)})
			return
		}
		gk = named
	}
	if a.seen[gk] {
		return
	}
	r, ok := a.kinds.Resource(gk)
	if !ok {
		a.unknown(m.place, gk)
		return
	}
	a.out.objects.add(r, releaseVerbs...)
	a.tell(Message{File: m.file, Line: m.line, Note: true, Text: fmt.Sprintf("no rendering reached this %s: its rule comes from reading the template", m.kind)})
	if gk.Group == rbacGroup {
		a.tell(Message{File: m.file, Line: m.line, Text: fmt.Sprintf(
			"no rendering reached this %s: what it grants the operator has to hold as well; add a sample that makes it (--sample)", m.kind)})
	}
}
