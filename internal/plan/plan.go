// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan shows people what a pending change would do: which objects it
// adds, changes and removes, and how, without a word of what Secrets hold. It is
// pure: manifests in, a plan or a ConfigMap out.
package plan

import (
	"fmt"
	"strings"
)

// Plan of a change.
type Plan struct {
	// Digest of the change, in full.
	Digest string
	// Added, Changed, Removed and Unchanged count objects.
	Added, Changed, Removed, Unchanged int
	// Diff of the rendered manifests, in unified format, object by object. What
	// Secrets hold, and other secrets that were named, is redacted wherever it occurs.
	Diff string
}

// New returns the plan of the change with the digest, from the manifest that is
// released (empty if none is) to the one that would be. What Secrets in them
// hold does not show, nor do the other secrets that are given. An error says
// which of the two can't be read, and quotes nothing of it.
func New(digest, released, pending string, secrets ...string) (Plan, error) {
	before, err := parse(released)
	if err != nil {
		return Plan{}, fmt.Errorf("the released manifest: %w", err)
	}
	after, err := parse(pending)
	if err != nil {
		return Plan{}, fmt.Errorf("the pending manifest: %w", err)
	}
	p := Plan{Digest: digest}
	hidden := collect(secrets, before, after)
	var out strings.Builder
	for _, pair := range match(before, after) {
		switch kind := pair.change(); kind {
		case added:
			p.Added++
		case changed:
			p.Changed++
		case removed:
			p.Removed++
		default:
			p.Unchanged++
			continue
		}
		out.WriteString(pair.diff(hidden))
	}
	p.Diff = out.String()
	return p, nil
}

// Summary is the counts in one line, such as "1 object added, 2 changed, 0 removed".
func (p Plan) Summary() string {
	noun := "objects"
	if p.Added == 1 {
		noun = "object"
	}
	return fmt.Sprintf("%d %s added, %d changed, %d removed", p.Added, noun, p.Changed, p.Removed)
}
