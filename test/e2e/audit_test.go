// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/chartgate/chartgate/test/controlplane"
)

// noForbidden checks that the API server refused nothing to the operator itself since
// a moment, and that it was asked for something. What it asks for as a tenant may be refused.
func noForbidden(t *testing.T, o operator, since time.Time) {
	t.Helper()
	account := o.account(t)
	events, err := env.cluster.AuditEvents(t.Context(), controlplane.ByUser(account), controlplane.Since(since))
	must(t, err)
	var refused []string
	for _, e := range events {
		if e.ResponseStatus.Code == http.StatusForbidden && e.ImpersonatedUser == nil {
			refused = append(refused, e.Verb+" "+e.RequestURI)
		}
	}
	slices.Sort(refused)
	if refused = slices.Compact(refused); len(refused) > 0 {
		t.Errorf("the API server refused to %s: %v", account, refused)
	}
	if len(events) == 0 {
		t.Errorf("the audit log has no request of %s", account)
	}
}
