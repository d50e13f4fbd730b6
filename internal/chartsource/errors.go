// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Reasons why there is no chart, as reasons of conditions.
const (
	// ReasonInvalidReference: the resource does not name a chart the way it has to.
	ReasonInvalidReference = "InvalidChartReference"
	// ReasonInvalidResources: the manifests in the resource cannot be a chart.
	ReasonInvalidResources = "InvalidResources"
	// ReasonNotAllowed: the operator may not use this repository.
	ReasonNotAllowed = "RepositoryNotAllowed"
	// ReasonUnreachable: the repository cannot be reached, or does not answer as it should. It passes.
	ReasonUnreachable = "RepositoryUnreachable"
	// ReasonRepositoryInvalid: what answers is no chart repository.
	ReasonRepositoryInvalid = "RepositoryInvalid"
	// ReasonAuthenticationFailed: the repository refuses the credentials, or wants some.
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonSecretInvalid: a Secret for the repository is missing, or lacks what it should hold.
	ReasonSecretInvalid = "RepositorySecretInvalid"
	// ReasonChartNotFound: the repository has no chart of the name.
	ReasonChartNotFound = "ChartNotFound"
	// ReasonVersionNotFound: the chart has no version that fits.
	ReasonVersionNotFound = "VersionNotFound"
	// ReasonDigestMismatch: the archive is not the one that the repository's index lists.
	ReasonDigestMismatch = "DigestMismatch"
	// ReasonVerificationFailed: the chart is not signed by a known key.
	ReasonVerificationFailed = "VerificationFailed"
	// ReasonChartInvalid: the archive holds no chart that can be released.
	ReasonChartInvalid = "ChartInvalid"
	// ReasonTooLarge: index or chart exceed what the operator reads.
	ReasonTooLarge = "ChartTooLarge"
)

// Error says why there is no chart.
type Error struct {
	// Reason in CamelCase, one of the constants.
	Reason string
	// Terminal is true when nothing gets better by trying again soon: somebody has to do something.
	Terminal bool
	// RetryAfter is when to look again though the resource is not changed. Zero with a
	// terminal error: only another spec helps. Zero with any other: by the caller's back-off.
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
	return &Error{Reason: ReasonUnreachable, Err: fmt.Errorf(format, args...)}
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
