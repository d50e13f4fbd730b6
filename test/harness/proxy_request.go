// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// Request is one request to the API server, in the words of Kubernetes' audit.
type Request struct {
	// Verb is get, list, watch, create, update, patch, delete or
	// deletecollection; the HTTP method in lower case for requests that concern
	// no resource.
	Verb string
	// Group, Version, Resource and Subresource that are asked for.
	Group, Version, Resource, Subresource string
	// Namespace and Name of the object. A creation's name is that of its body.
	Namespace, Name string
	// Path of the URL, without the query.
	Path string
}

// Write tells whether the request may change something.
func (r Request) Write() bool {
	switch r.Verb {
	case "get", "list", "watch", "head", "options":
		return false
	}
	return true
}

// Housekeeping tells whether the request is an event, a lease or a question
// about rights: nothing that a release consists of.
func (r Request) Housekeeping() bool {
	switch r.Group {
	case "authentication.k8s.io", "authorization.k8s.io", "coordination.k8s.io":
		return true
	}
	return r.Resource == "events"
}

// String shows the request as "patch deployments/status ns/name".
func (r Request) String() string {
	if r.Resource == "" {
		return r.Verb + " " + r.Path
	}
	what := r.Resource
	if r.Subresource != "" {
		what += "/" + r.Subresource
	}
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Verb, what, name))
}

var requestInfo = request.RequestInfoFactory{
	APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
}

// readRequest reads what an HTTP request asks for. The body of a creation is
// read for the object's name, and put back.
func readRequest(r *http.Request) (Request, error) {
	info, err := requestInfo.NewRequestInfo(r)
	if err != nil {
		return Request{}, err
	}
	out := Request{
		Verb: info.Verb, Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource,
		Subresource: info.Subresource, Namespace: info.Namespace, Name: info.Name, Path: info.Path,
	}
	if out.Verb != "create" || out.Name != "" || r.Body == nil {
		return out, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return out, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	out.Name = nameOf(body)
	return out, nil
}

// nameOf returns the name of an object in JSON, or in protobuf if it is of a
// built-in kind; empty if there is none.
func nameOf(body []byte) string {
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(body, &object) == nil {
		return object.Name
	}
	decoded, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return ""
	}
	accessor, err := meta.Accessor(decoded)
	if err != nil {
		return ""
	}
	return accessor.GetName()
}

// Action says what the proxy does with a request.
type Action struct {
	verdict verdict
	code    int
	then    func()
}

type verdict int

const (
	forward verdict = iota
	drop
	dropResponse
	answer
)

// Forward has the request forwarded as if nobody looked.
func Forward() Action { return Action{} }

// Drop has the connection closed; the API server never sees the request.
func Drop() Action { return Action{verdict: drop} }

// DropResponse has the request forwarded, whatever becomes of its sender; once
// the API server has answered, then is called and the connection closed.
func DropResponse(then func()) Action { return Action{verdict: dropResponse, then: then} }

// Answer has the request answered with an HTTP status by the proxy itself.
func Answer(code int) Action { return Action{verdict: answer, code: code} }

// Nth returns a hook that answers the n-th request that matches with the
// action, counted from 1, and forwards all others. It is for one use.
func Nth(n int, matches func(Request) bool, action Action) func(Request) Action {
	return func(r Request) Action {
		if matches(r) {
			if n--; n == 0 {
				return action
			}
		}
		return Forward()
	}
}

// statusOf is the API server's way to say an HTTP status.
func statusOf(r Request, code int) metav1.Status {
	reasons := map[int]metav1.StatusReason{
		http.StatusForbidden:           metav1.StatusReasonForbidden,
		http.StatusNotFound:            metav1.StatusReasonNotFound,
		http.StatusConflict:            metav1.StatusReasonConflict,
		http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
		http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError: metav1.StatusReasonInternalError,
		http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
	}
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Message:  fmt.Sprintf("the test's proxy answers %d to %s", code, r),
		Reason:   reasons[code],
		Code:     int32(code),
		Details:  &metav1.StatusDetails{Name: r.Name, Group: r.Group, Kind: r.Resource},
	}
}
