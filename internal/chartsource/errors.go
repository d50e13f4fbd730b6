// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// Error says why there is no chart.
type Error struct {
	// Reason of a condition, one of the constants of v1alpha1.
	Reason string
	// Terminal is true when nothing gets better by trying again soon: somebody has to do something.
	Terminal bool
	// RetryAfter is when to look again though the resource is not changed. Zero with a
	// terminal error: only another spec helps.
	RetryAfter time.Duration
	// Err says what is wrong and what to do. It holds no secret.
	Err error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// stuck makes an error that only another spec mends.
func stuck(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Terminal: true, Err: fmt.Errorf(format, args...)}
}

// absent makes an error that somebody mends outside of the resource. The time
// to look again is filled in by Repository, which knows how often that may be.
func absent(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Terminal: true, RetryAfter: -1, Err: fmt.Errorf(format, args...)}
}

// passing makes an error that may be gone at the next try.
func passing(format string, args ...any) *Error {
	return &Error{Reason: v1alpha1.ReasonRepositoryUnreachable, Err: fmt.Errorf(format, args...)}
}

// within puts the error into a context, and keeps what kind it is.
func (e *Error) within(format string, args ...any) *Error {
	out := *e
	out.Err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), e.Err)
	return &out
}

// asError returns the Error in err; any other error is one that may pass.
func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return passing("%w", err)
}

// is tells whether err has one of the reasons.
func is(err error, reasons ...string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(reasons, e.Reason)
}
