// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LabelProtects with value ProtectsApprovals marks the ValidatingAdmissionPolicy and its binding that
// vouch for who made a ReleaseApproval. config/policy ships both.
const (
	LabelProtects     = "chartgate.dev/protects"
	ProtectsApprovals = "releaseapprovals"
)

// KindReleaseApproval is the kind of approvals.
const KindReleaseApproval = "ReleaseApproval"

// ReleaseApproval says that a person approves, or rejects, a change that a gate of type
// ManualApproval holds. It lives in the namespace of the resource it is about. Who creates it must
// be the approver it names, and hold the verb "approve" on that resource.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=releaseapprovals,singular=releaseapproval,scope=Namespaced
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.target.kind`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.target.name`
// +kubebuilder:printcolumn:name="Gate",type=string,JSONPath=`.spec.gate`
// +kubebuilder:printcolumn:name="Decision",type=string,JSONPath=`.spec.decision`
// +kubebuilder:printcolumn:name="Approver",type=string,JSONPath=`.spec.approver`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expiresAt`,priority=1
// +kubebuilder:printcolumn:name="Digest",type=string,JSONPath=`.spec.digest`,priority=1
// +kubebuilder:printcolumn:name="Comment",type=string,JSONPath=`.spec.comment`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ReleaseApproval struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec of the approval. It can't be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an approval can't be changed; delete it and create another"
	Spec ReleaseApprovalSpec `json:"spec"`
}

// ReleaseApprovalSpec says who decided what about which change.
type ReleaseApprovalSpec struct {
	// Target is the resource whose change is decided on, in the approval's own namespace.
	Target ApprovalTarget `json:"target"`

	// Gate of the target that is decided on. Default: every gate of type ManualApproval it has.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Gate string `json:"gate,omitempty"`

	// Decision: Approve lets the change through, Reject holds it whoever else approves. Default: Approve.
	// +optional
	// +kubebuilder:default=Approve
	Decision ApprovalDecision `json:"decision,omitempty"`

	// Digest of the change, in full, as status.pending.digest of the target shows it. Default: any
	// change, which gates with perChange do not accept.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{64})?$`
	Digest string `json:"digest,omitempty"`

	// Approver is the user who decides: the name that "kubectl auth whoami" shows.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Approver string `json:"approver"`

	// ExpiresAt is when the decision stops to count. Default: never.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// Comment for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Comment string `json:"comment,omitempty"`
}

// ApprovalTarget names a resource of a Chartgate kind.
type ApprovalTarget struct {
	// Kind of the resource, such as Guestbook.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Kind string `json:"kind"`

	// Name of the resource.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Group of the kind. Default: apps.chartgate.dev.
	// +optional
	// +kubebuilder:default="apps.chartgate.dev"
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`

	// Resource is the plural under which the kind is served, on which the approver must hold the verb
	// "approve". Default: the regular plural of the kind, such as guestbooks. An approval whose plural
	// is not the target's own does not count.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z][-a-z0-9]*)?$`
	Resource string `json:"resource,omitempty"`
}

// ApprovalDecision is what a person decided.
// +kubebuilder:validation:Enum=Approve;Reject
type ApprovalDecision string

// The decisions.
const (
	DecisionApprove ApprovalDecision = "Approve"
	DecisionReject  ApprovalDecision = "Reject"
)

// ReleaseApprovalList is a list of approvals.
//
// +kubebuilder:object:root=true
type ReleaseApprovalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ReleaseApproval `json:"items"`
}
