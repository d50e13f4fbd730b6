// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Phase is where a resource is in its life, in one word for people.
// Machines read conditions.
type Phase string

// The phases. WebApp and Database go on from Deployed to Updating and Running.
const (
	// PhasePending: nothing is released yet, and something has to happen first.
	PhasePending Phase = "Pending"
	// PhaseDeploying: a Helm action is going on.
	PhaseDeploying Phase = "Deploying"
	// PhaseDeployed: the change that the spec asks for is released.
	PhaseDeployed Phase = "Deployed"
	// PhaseDeploymentFailed: the last change could not be released.
	PhaseDeploymentFailed Phase = "DeploymentFailed"
	// PhaseUpdating: the workload of a kind that has one is on its way to what was released.
	PhaseUpdating Phase = "Updating"
	// PhaseRunning: all replicas of the workload are ready.
	PhaseRunning Phase = "Running"
	// PhaseUninstalling: the resource is being deleted.
	PhaseUninstalling Phase = "Uninstalling"
)

// CommonStatus is the status that every Chartgate kind has.
type CommonStatus struct {
	// Phase in one word: Pending, Deploying, Deployed, DeploymentFailed or Uninstalling. Kinds that run
	// a workload go on from Deployed to Updating and Running.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Message says in one sentence what goes on, or what to do.
	// +optional
	Message string `json:"message,omitempty"`

	// ObservedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Ready, Reconciling, Stalled, AllGatesPassed, one named after each gate, and more.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Gates and how each was judged last.
	// +optional
	// +listType=map
	// +listMapKey=name
	Gates []GateStatus `json:"gates,omitempty"`

	// GatesPassed counts the gates, as in 2/3. Empty where there are none.
	// +optional
	GatesPassed string `json:"gatesPassed,omitempty"`

	// Approvals that let the applied changes through.
	// +optional
	// +listType=atomic
	Approvals []ApprovalRecord `json:"approvals,omitempty"`

	// Pending is the change that waits to be released, if there is one.
	// +optional
	Pending *PendingChange `json:"pending,omitempty"`

	// ReleaseName is the name of the Helm release.
	// +optional
	ReleaseName string `json:"releaseName,omitempty"`

	// ReleaseNamespace is where the Helm release is stored: helm history -n takes it.
	// +optional
	ReleaseNamespace string `json:"releaseNamespace,omitempty"`

	// Revision of the deployed Helm release.
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// Chart is the name of the deployed chart.
	// +optional
	Chart string `json:"chart,omitempty"`

	// LastDeployedVersion is the version of the chart that was deployed last.
	// +optional
	LastDeployedVersion string `json:"lastDeployedVersion,omitempty"`

	// AppVersion of the deployed chart.
	// +optional
	AppVersion string `json:"appVersion,omitempty"`

	// AppliedDigest is the digest of the applied change: chart, values and the settings that reach objects.
	// +optional
	AppliedDigest string `json:"appliedDigest,omitempty"`

	// History lists the revisions that Chartgate wrote, oldest first, with the digest of each payload.
	// +optional
	// +listType=map
	// +listMapKey=revision
	History []HistoryEntry `json:"history,omitempty"`

	// Failures counts the tries of the current change that failed in a row.
	// +optional
	Failures int64 `json:"failures,omitempty"`

	// LastHandledReconcileAt is the value of annotation chartgate.dev/reconcile-at that was acted on last.
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// LastHandledResume is the value of annotation chartgate.dev/resume that was acted on last.
	// +optional
	LastHandledResume string `json:"lastHandledResume,omitempty"`
}

// Verdict is what a gate said.
// +kubebuilder:validation:Enum=Passed;Waiting;Unknown
type Verdict string

// The verdicts.
const (
	VerdictPassed  Verdict = "Passed"
	VerdictWaiting Verdict = "Waiting"
	VerdictUnknown Verdict = "Unknown"
)

// GateStatus is how one gate was judged last.
type GateStatus struct {
	// Name of the gate.
	Name string `json:"name"`
	// Type of the gate.
	Type GateType `json:"type"`
	// Mandatory gates hold the change.
	Mandatory bool `json:"mandatory"`
	// Verdict: Passed, Waiting, or Unknown where the gate could not be judged.
	Verdict Verdict `json:"verdict"`
	// Reason of the verdict, in CamelCase.
	Reason string `json:"reason"`
	// Message for people: what is missing and how to provide it.
	// +optional
	Message string `json:"message,omitempty"`
	// LastTransitionTime is when the verdict last changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}

// ApprovalRecord says who let a change through a gate, and when.
type ApprovalRecord struct {
	// Gate that was approved.
	Gate string `json:"gate"`
	// Approver is the user who approved, or unknown where the source does not tell.
	Approver string `json:"approver"`
	// Digest of the change that was let through.
	Digest string `json:"digest"`
	// Source of the approval: kind and name of its object.
	Source string `json:"source"`
	// Time at which the approval was first seen to count.
	Time metav1.Time `json:"time"`
}

// PendingChange is a change that waits to be released.
type PendingChange struct {
	// Digest of the change.
	Digest string `json:"digest"`
	// Plan is the name of the ConfigMap that shows what the change would do.
	// +optional
	Plan string `json:"plan,omitempty"`
	// Since when the change has been waiting.
	Since metav1.Time `json:"since"`
}

// HistoryEntry is one revision that Chartgate wrote.
type HistoryEntry struct {
	// Revision of the Helm release.
	Revision int64 `json:"revision"`
	// Digest of the revision's payload (manifest and hooks): only a stored
	// release with a digest listed here is ever applied again.
	Digest string `json:"digest"`
}
