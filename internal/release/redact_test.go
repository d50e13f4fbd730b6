// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRedactTakesSecretsOutOfMessages(t *testing.T) {
	s := &Session{
		change: Change{Values: map[string]any{
			"db":             map[string]any{"adminPassword": "canary-one", "user": "alice"},
			"tokens":         []any{"canary-two"},
			"existingSecret": "stays",
		}},
		rendered: &rendering{manifest: `apiVersion: v1
kind: Secret
metadata: {name: s}
data: {k: Y2FuYXJ5LXRocmVl}
stringData: {l: canary-four}
`},
	}
	message := "bad: canary-one alice canary-two stays canary-three Y2FuYXJ5LXRocmVl canary-four"
	got := s.redact(message)
	if want := "bad: <redacted> alice <redacted> stays <redacted> <redacted> <redacted>"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	cause := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "canary-one", errors.New("no"))
	err := s.Redact(cause)
	if strings.Contains(err.Error(), "canary") || !apierrors.IsForbidden(err) {
		t.Errorf("error %v, forbidden %v", err, apierrors.IsForbidden(err))
	}
	if s.Redact(nil) != nil {
		t.Error("an error out of nothing")
	}
}
