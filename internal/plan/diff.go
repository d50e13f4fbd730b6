// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"sigs.k8s.io/yaml"
)

const (
	// contextLines are shown around what differs.
	contextLines = 3
	// maxLines bounds an object that is compared line by line: the comparison of
	// larger ones takes long, and nobody reads it.
	maxLines = 20000
)

// diff is the change of one object in unified format, with a headline.
func (p pair) diff(secrets *needles) string {
	before, after := render(p, secrets)
	headline := "# " + p.headline(secrets) + "\n"
	if before == after {
		return headline + "(only redacted values differ)\n\n"
	}
	a, b := lines(before), lines(after)
	if len(a) > maxLines || len(b) > maxLines {
		return headline + fmt.Sprintf("(%d lines before, %d after: too long to show)\n\n", len(a), len(b))
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: a, B: b, FromFile: "released", ToFile: "pending", Context: contextLines,
	})
	if err != nil {
		return headline + "(the difference can't be shown)\n\n"
	}
	return headline + text + "\n"
}

// headline names the object and what becomes of it.
func (p pair) headline(secrets *needles) string {
	o, verb := p.after, "add"
	switch p.change() {
	case removed:
		o, verb = p.before, "remove"
	case changed:
		verb = "change"
	case added, unchanged:
	}
	name := o.kind.Kind
	if o.kind.Group != "" {
		name += "." + o.kind.Group
	}
	name += " " + secrets.redact(o.name)
	if o.namespace != "" {
		name += " in namespace " + secrets.redact(o.namespace)
	}
	return verb + " " + strings.Join(strings.Fields(name), " ")
}

// lines splits a text into lines that keep their ends; an empty text has none.
func lines(text string) []string { return slices.Collect(strings.Lines(text)) }

// render is the object before and after as YAML, redacted; empty where there is none.
func render(p pair, secrets *needles) (before, after string) {
	was, is := p.redacted(secrets)
	return text(was), text(is)
}

func text(body map[string]any) string {
	if body == nil {
		return ""
	}
	out, err := yaml.Marshal(body)
	if err != nil {
		return "(can't be shown)\n"
	}
	return string(out)
}
