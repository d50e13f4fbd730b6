// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// fakeReviewer answers every question in the same way, and notes it.
type fakeReviewer struct {
	allowed bool
	err     error
	asked   []authorizationv1.SubjectAccessReviewSpec
}

func (f *fakeReviewer) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	f.asked = append(f.asked, review.Spec)
	if f.err != nil {
		return nil, f.err
	}
	out := review.DeepCopy()
	out.Status.Allowed = f.allowed
	return out, nil
}

func request(operation admissionv1.Operation, object, oldObject string) admission.Request {
	raw := func(s string) runtime.RawExtension {
		if s == "" {
			return runtime.RawExtension{}
		}
		return runtime.RawExtension{Raw: []byte(s)}
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Operation: operation, Namespace: "team-a", Object: raw(object), OldObject: raw(oldObject),
		Resource: metav1.GroupVersionResource{Group: "apps.chartgate.dev", Version: "v1alpha1", Resource: "releaseapprovals"},
		UserInfo: authenticationv1.UserInfo{
			Username: "anna", UID: "42", Groups: []string{"leads", "system:authenticated"},
			Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a", "b"}},
		},
	}}
}

const (
	byAnna = `{"spec":{"target":{"kind":"Guestbook","name":"web"},"decision":"Approve","approver":"anna"}}`
	byOtto = `{"spec":{"target":{"kind":"Guestbook","name":"web"},"decision":"Approve","approver":"otto"}}`
)

func TestRequestsAreJudged(t *testing.T) {
	subresource := request(admissionv1.Update, byAnna, byOtto)
	subresource.SubResource = "status"
	other := request(admissionv1.Create, byAnna, "")
	other.Resource.Resource = "guestbooks"
	for what, c := range map[string]struct {
		request  admission.Request
		reviewer fakeReviewer
		code     int32
		message  string
		asks     bool
	}{
		"by who holds the verb":          {request(admissionv1.Create, byAnna, ""), fakeReviewer{allowed: true}, http.StatusOK, "", true},
		"by who does not":                {request(admissionv1.Create, byAnna, ""), fakeReviewer{}, http.StatusForbidden, "anna may not approve guestbooks.apps.chartgate.dev web", true},
		"in another's name":              {request(admissionv1.Create, byOtto, ""), fakeReviewer{allowed: true}, http.StatusForbidden, "must be the user who approves: anna", false},
		"when rights can't be asked for": {request(admissionv1.Create, byAnna, ""), fakeReviewer{err: errors.New("no answer")}, http.StatusInternalServerError, "is not known: no answer", true},
		"when it can't be read":          {request(admissionv1.Create, `{"spec":[]}`, ""), fakeReviewer{allowed: true}, http.StatusBadRequest, "read the ReleaseApproval", false},
		"when there is nothing":          {request(admissionv1.Create, "", ""), fakeReviewer{allowed: true}, http.StatusBadRequest, "read the ReleaseApproval", false},
		"with a field in another case": {
			request(admissionv1.Create, `{"spec":{"target":{"kind":"Guestbook","name":"web"},"Approver":"anna"}}`, ""),
			fakeReviewer{allowed: true}, http.StatusForbidden, "it is \"\"", false,
		},
		"changed":             {request(admissionv1.Update, byOtto, byAnna), fakeReviewer{allowed: true}, http.StatusForbidden, "an approval can't be changed", false},
		"labeled":             {request(admissionv1.Update, byAnna, byAnna), fakeReviewer{}, http.StatusOK, "", false},
		"deleted":             {request(admissionv1.Delete, "", byAnna), fakeReviewer{}, http.StatusOK, "", false},
		"of another resource": {other, fakeReviewer{allowed: true}, http.StatusBadRequest, "was asked about guestbooks.apps.chartgate.dev", false},
		"of a subresource":    {subresource, fakeReviewer{allowed: true}, http.StatusBadRequest, "correct the rules", false},
	} {
		t.Run(what, func(t *testing.T) {
			got := Approvals{Reviewer: &c.reviewer}.Handle(t.Context(), c.request)
			if got.Allowed != (c.code == http.StatusOK) || got.Result.Code != c.code || !strings.Contains(got.Result.Message, c.message) {
				t.Errorf("allowed %v, %+v", got.Allowed, got.Result)
			}
			if c.code == http.StatusForbidden && got.Result.Reason != metav1.StatusReasonForbidden {
				t.Errorf("reason %q", got.Result.Reason)
			}
			if (len(c.reviewer.asked) > 0) != c.asks {
				t.Errorf("asked %+v", c.reviewer.asked)
			}
		})
	}
}

func TestAllThatIsKnownOfTheUserIsAsked(t *testing.T) {
	reviewer := &fakeReviewer{allowed: true}
	Approvals{Reviewer: reviewer}.Handle(t.Context(), request(admissionv1.Create, byAnna, ""))
	want := []authorizationv1.SubjectAccessReviewSpec{{
		User: "anna", UID: "42", Groups: []string{"leads", "system:authenticated"},
		Extra: map[string]authorizationv1.ExtraValue{"scopes": {"a", "b"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "approve", Group: "apps.chartgate.dev", Version: "*", Resource: "guestbooks", Namespace: "team-a", Name: "web",
		},
	}}
	if diff := cmp.Diff(want, reviewer.asked); diff != "" {
		t.Error(diff)
	}
}
