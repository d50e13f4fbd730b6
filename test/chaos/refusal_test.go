// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chartgate/chartgate/test/harness"
)

// TestAPIServerRefusesWrite has the API server refuse one write of a living
// operator, for a reason that passes.
func TestAPIServerRefusesWrite(t *testing.T) {
	t.Parallel()
	kind := newKind(t)
	scenarios := map[string]scenario{"install": installing, "upgrade": upgrading, "failed upgrade": failing, "uninstall": uninstalling}
	writes := map[string]moment{
		"lock":     {n: 1, matches: isReleaseSecret},
		"marking":  {n: 2, matches: isReleaseSecret},
		"object":   {n: 1, matches: func(w harness.Request) bool { return isWrite(w) && w.Resource == "services" }},
		"resource": {n: 1, matches: func(w harness.Request) bool { return isWrite(w) && w.Group == kind.Group }},
	}
	codes := map[string]int{"lock": http.StatusInternalServerError, "marking": http.StatusConflict, "object": http.StatusServiceUnavailable, "resource": http.StatusConflict}
	plan(len(scenarios) * len(writes))
	for what, s := range scenarios {
		for which, m := range writes {
			code := codes[which]
			t.Run(fmt.Sprintf("%s, %s, %d", what, which, code), func(t *testing.T) {
				t.Parallel()
				finish(t)
				free := takeSlot(t)
				r := newRun(t, kind)
				s.prepare(r)
				free()
				r.proxy.OnWrite(harness.Nth(m.n, m.matches, harness.Answer(code)))
				s.act(r)
				r.within(deployRetry, "the operator gets to the end", func() error { return s.done(r) })
				t.Logf("history %q", r.Statuses(name))
			})
		}
	}
}
