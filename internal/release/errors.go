// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Cause says in one word what a failed action failed at.
type Cause string

// The causes. CauseForbidden and CauseOther may pass by themselves; with the
// others nothing gets better before spec, chart or cluster change.
const (
	// CauseValues: the values don't fit the chart's schema.
	CauseValues Cause = "values"
	// CauseRender: a template failed, or made no valid manifest.
	CauseRender Cause = "render"
	// CauseObject: the API server calls an object invalid.
	CauseObject Cause = "object"
	// CauseOwnership: an object or a release of the same name belongs to somebody else.
	CauseOwnership Cause = "ownership"
	// CauseForbidden: the acting identity lacks a right.
	CauseForbidden Cause = "forbidden"
	// CauseOther: the API is down, a webhook refuses, a kind is not served yet.
	CauseOther Cause = "other"
)

// terminalError is a fault that no retry mends.
type terminalError struct {
	cause Cause
	err   error
}

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }

func terminal(cause Cause, err error) error { return &terminalError{cause: cause, err: err} }

// Classify tells why an action failed, and whether it is of use to try again
// before spec or chart change.
func Classify(err error) (cause Cause, isTerminal bool) {
	var t *terminalError
	switch {
	case errors.As(err, &t):
		return t.cause, true
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return CauseObject, true
	case apierrors.IsForbidden(err):
		return CauseForbidden, false
	case meta.IsNoMatchError(err):
		return CauseOther, false
	default:
		return CauseOther, false
	}
}

// Verbs that it takes to go on after err, which says that one of them is missing:
// to look something up, reading; to release an object, all that is done with one.
func Verbs(err error) []string {
	if _, isLookup := errors.AsType[*lookupError](err); isLookup {
		return []string{"get", "list"}
	}
	return []string{"get", "list", "watch", "create", "update", "patch", "delete"}
}

// cleanSchemaError takes Helm's preamble and blank lines off a schema error,
// so that it reads well in one line of a condition.
func cleanSchemaError(err error) error {
	var lines []string
	for l := range strings.SplitSeq(err.Error(), "\n") {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	return &flatError{msg: strings.Join(lines, " "), err: err}
}

type flatError struct {
	msg string
	err error
}

func (e *flatError) Error() string { return e.msg }
func (e *flatError) Unwrap() error { return e.err }
