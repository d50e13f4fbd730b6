// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// reviewTimeout bounds the question whether a user holds a right. It is less
// than what the API server waits for the webhook, so that it hears why.
const reviewTimeout = 8 * time.Second

// Reviewer asks the API server whether a user holds a right. The clientset's
// AuthorizationV1().SubjectAccessReviews() is one.
type Reviewer interface {
	Create(ctx context.Context, review *authorizationv1.SubjectAccessReview, options metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// Approvals judges requests for ReleaseApprovals. What it can't judge it answers
// with an error, which the API server takes for a refusal.
type Approvals struct {
	Reviewer Reviewer
}

var _ admission.Handler = Approvals{}

// Handle judges one request.
func (a Approvals) Handle(ctx context.Context, request admission.Request) admission.Response {
	if request.Resource.Group != v1alpha1.GroupVersion.Group || request.Resource.Resource != v1alpha1.ProtectsApprovals || request.SubResource != "" {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("this webhook judges %s.%s, and was asked about %s.%s; correct the rules of its ValidatingWebhookConfiguration",
			v1alpha1.ProtectsApprovals, v1alpha1.GroupVersion.Group, request.Resource.Resource, request.Resource.Group))
	}
	switch request.Operation {
	case admissionv1.Create:
		return a.create(ctx, request)
	case admissionv1.Update:
		return update(request)
	default: // nothing is decided by a deletion
		return admission.Allowed("")
	}
}

// create refuses an approval unless its approver makes it, and holds the right to.
func (a Approvals) create(ctx context.Context, request admission.Request) admission.Response {
	approval, err := decode(request.Object)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	user := request.UserInfo
	right, refusal := Examine(approval, user.Username, request.Namespace)
	if refusal != "" {
		return admission.Denied(refusal)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, reviewTimeout, errReview)
	defer cancel()
	review, err := a.Reviewer.Create(ctx, accessReview(user, right), metav1.CreateOptions{})
	if err != nil {
		return admission.Errored(http.StatusInternalServerError,
			fmt.Errorf("whether %s may %s %s.%s %s is not known: %w", user.Username, Verb, right.Resource, right.Group, right.Name, err))
	}
	if !review.Status.Allowed {
		logf.FromContext(ctx).V(1).Info("Approval refused", "user", user.Username, "resource", right.Resource, "group", right.Group,
			"name", right.Name, "reason", review.Status.Reason, "evaluationError", review.Status.EvaluationError)
		return admission.Denied(right.Missing(user.Username))
	}
	return admission.Allowed("")
}

var errReview = errors.New("the API server did not answer a SubjectAccessReview in time")

// accessReview asks for the right with just the attributes that the policy's
// authorizer uses: of any version, by all that is known of the user.
func accessReview(user authenticationv1.UserInfo, right Right) *authorizationv1.SubjectAccessReview {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: Verb, Group: right.Group, Version: "*", Resource: right.Resource, Namespace: right.Namespace, Name: right.Name,
		},
	}
	if len(user.Extra) > 0 {
		spec.Extra = make(map[string]authorizationv1.ExtraValue, len(user.Extra))
		for key, values := range user.Extra {
			spec.Extra[key] = authorizationv1.ExtraValue(values)
		}
	}
	return &authorizationv1.SubjectAccessReview{Spec: spec}
}

// update refuses another spec. The CRD does as well; this holds where somebody's CRD does not.
func update(request admission.Request) admission.Response {
	before, err := decode(request.OldObject)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	after, err := decode(request.Object)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return admission.Denied("an approval can't be changed; delete it and create another")
	}
	return admission.Allowed("")
}

// decode reads an approval by the API server's rules: names of fields are as they are written.
func decode(raw runtime.RawExtension) (*v1alpha1.ReleaseApproval, error) {
	var approval v1alpha1.ReleaseApproval
	if err := json.Unmarshal(raw.Raw, &approval); err != nil {
		return nil, fmt.Errorf("read the ReleaseApproval of the request: %w", err)
	}
	return &approval, nil
}
