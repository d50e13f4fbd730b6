// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// maxText is how much of what somebody else wrote goes into a message.
const maxText = 300

// plain makes text of somebody else fit into one line of a message.
func plain(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar
	}), " ")
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText]) + "..."
	}
	return text
}

// place names a URL without what may be secret in it: user, query, fragment.
func place(u *url.URL) string {
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// fault turns what a request failed with into an Error. Addresses with a query,
// such as those that a registry redirects to, are signed and so kept out of it.
func fault(what string, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		text := http.StatusText(answer.StatusCode)
		if len(answer.Errors) > 0 {
			text = plain(answer.Errors.Error())
		}
		return answered(what, answer.StatusCode, text)
	}
	if errors.Is(err, auth.ErrBasicCredentialNotFound) {
		return answered(what, http.StatusUnauthorized, "user and password are wanted")
	}
	if errors.Is(err, errdef.ErrNotFound) {
		return answered(what, http.StatusNotFound, "not found")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return passing("%s: it did not answer in time", what)
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return passing("%s: its certificate is not trusted: %s; if it is signed by an authority of your own, put that into key ca.crt of the Secret in secretRef",
			what, plain(bad.Err.Error()))
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		same := *op
		same.Source = nil // another port each time would make another message each time
		return passing("%s: %s", what, plain(same.Error()))
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return passing("%s: %s", what, plain(err.Error()))
}

// answered is the Error for an HTTP status that is not a success.
func answered(what string, status int, text string) *Error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return absent(v1alpha1.ReasonAuthenticationFailed, "%s: it answers %d (%s): it does not exist there, or needs other credentials than those in secretRef", what, status, text)
	case http.StatusNotFound, http.StatusGone:
		return absent(v1alpha1.ReasonChartNotFound, "%s: it answers %d (%s)", what, status, text)
	default:
		return passing("%s: it answers %d (%s)", what, status, text)
	}
}
