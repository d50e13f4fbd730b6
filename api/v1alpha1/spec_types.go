// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Reserved spec fields: Chartgate's own settings. They never reach the chart,
// where the kind's CRD declares them.
const (
	// GatesField is the name of the reserved spec field that holds gates.
	GatesField = "gates"
	// ReleaseField is the name of the reserved spec field that holds release settings.
	ReleaseField = "release"
)

// CommonSpec is the part of spec that every Chartgate kind has.
type CommonSpec struct {
	// Gates that a change (an install or an upgrade) has to pass before it is released.
	// Repair of what is released, and deletion, are never held.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Gates []Gate `json:"gates,omitempty"`

	// Release settings: how Chartgate installs, upgrades, repairs and removes the Helm release.
	// +optional
	Release *ReleaseSpec `json:"release,omitempty"`
}

// GateType names how a gate decides.
type GateType string

// The gate types Chartgate knows. Any other type holds with reason UnknownGateType.
const (
	GateConfigMapExists GateType = "ConfigMapExists"
	GateSecretExists    GateType = "SecretExists"
	GateDependencyReady GateType = "DependencyReady"
	GateManualApproval  GateType = "ManualApproval"
	GateExpression      GateType = "Expression"
	GateTimeWindow      GateType = "TimeWindow"
)

// ApprovalSource is a place an approval can come from.
// +kubebuilder:validation:Enum=ConfigMap;ReleaseApproval
type ApprovalSource string

// The two sources of approvals.
const (
	ApprovalFromConfigMap       ApprovalSource = "ConfigMap"
	ApprovalFromReleaseApproval ApprovalSource = "ReleaseApproval"
)

// Gate is one check that a change has to pass.
type Gate struct {
	// Name of the gate: unique in the list, and the type of its condition in the status.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['Ready','Reconciling','Stalled','AllGatesPassed','Drifted','RolledBack','RolloutPaused','ChartStale','Initialized','Deployed','ReleaseFailed','Irreconcilable','Paused'])",message="this name is taken by one of Chartgate's own condition types; choose another gate name"
	Name string `json:"name"`

	// Type of the gate: ConfigMapExists, SecretExists, DependencyReady, ManualApproval,
	// Expression or TimeWindow. An unknown type holds the change.
	// +kubebuilder:validation:MinLength=1
	Type GateType `json:"type"`

	// Mandatory gates hold the change until they pass; others are only reported.
	// +optional
	// +kubebuilder:default=true
	Mandatory *bool `json:"mandatory,omitempty"`

	// Description of the gate for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`

	// Ref is the object the gate looks at. Its name defaults to the gate's.
	// +optional
	Ref *GateRef `json:"ref,omitempty"`

	// CheckInterval in seconds: how often the gate is looked at again when no watch reports a change.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	CheckInterval *int32 `json:"checkInterval,omitempty"`

	// Keys that the ConfigMap or Secret must have (ConfigMapExists, SecretExists).
	// +optional
	// +kubebuilder:validation:MaxItems=64
	Keys []string `json:"keys,omitempty"`

	// Accept names the approval sources that count (ManualApproval). Default: both.
	// +optional
	// +listType=set
	Accept []ApprovalSource `json:"accept,omitempty"`

	// PerChange makes only an approval that names the pending change's digest count (ManualApproval).
	// +optional
	PerChange bool `json:"perChange,omitempty"`

	// Expression in CEL over object, self and now (Expression).
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression,omitempty"`

	// Schedule in cron format: when the window opens (TimeWindow).
	// +optional
	Schedule string `json:"schedule,omitempty"`

	// Duration the window stays open (TimeWindow), such as 2h.
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`

	// Timezone of the schedule, such as Europe/Berlin (TimeWindow). Default: UTC.
	// +optional
	Timezone string `json:"timezone,omitempty"`
}

// GateRef refers to the object a gate looks at.
type GateRef struct {
	// APIVersion of the object. Default: that of the gate's own kind, or of the custom resource.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the object. Default: that of the gate type, or of the custom resource.
	// +optional
	Kind string `json:"kind,omitempty"`
	// Name of the object. Default: the gate's name.
	// +optional
	Name string `json:"name,omitempty"`
	// Namespace of the object. Default: the target namespace of the release.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// DriftMode says what happens when a released object is changed or removed by someone else.
// +kubebuilder:validation:Enum=Correct;Report;Ignore
type DriftMode string

// The drift modes.
const (
	// DriftCorrect puts released objects back as they were released. The default.
	DriftCorrect DriftMode = "Correct"
	// DriftReport only shows condition Drifted.
	DriftReport DriftMode = "Report"
	// DriftIgnore does nothing.
	DriftIgnore DriftMode = "Ignore"
)

// DeletionPolicy says what becomes of the release when its custom resource is deleted.
// +kubebuilder:validation:Enum=Uninstall;Orphan
type DeletionPolicy string

// The deletion policies.
const (
	// DeletionUninstall uninstalls the release. The default.
	DeletionUninstall DeletionPolicy = "Uninstall"
	// DeletionOrphan leaves the release and its objects in place.
	DeletionOrphan DeletionPolicy = "Orphan"
)

// ReleaseSpec holds Chartgate's settings for one release.
type ReleaseSpec struct {
	// ServiceAccountName of the resource's own namespace that Chartgate acts as.
	// Default: what watches.yaml or the operator's flags say; without that the operator itself, but
	// ServiceAccount default where the resource's author chooses what is released (HelmApp, Microservice).
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="not a name of a ServiceAccount: use lower-case letters, digits, '-' and '.'; the ServiceAccount is one of the resource's own namespace"
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// Timeout of one Helm action, its hooks included, such as 5m.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// MaxHistory is the number of release revisions kept. 0 keeps all. Default: 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxHistory *int32 `json:"maxHistory,omitempty"`

	// Suspend holds changes and repair, never a deletion.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Drift says what happens when a released object is changed or removed by someone else.
	// +optional
	// +kubebuilder:default=Correct
	Drift DriftMode `json:"drift,omitempty"`

	// Retries of a failed deployment of one change, before it is Stalled. Default: 3.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Retries *int32 `json:"retries,omitempty"`

	// DisableHooks of the chart in every action.
	// +optional
	DisableHooks bool `json:"disableHooks,omitempty"`

	// ValuesFrom names Secrets and ConfigMaps whose keys hold values, merged in order under the spec.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	ValuesFrom []ValuesReference `json:"valuesFrom,omitempty"`

	// DeletionPolicy says what becomes of the release when this resource is deleted.
	// +optional
	// +kubebuilder:default=Uninstall
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// ValuesReference names a key of a Secret or ConfigMap that holds chart values in YAML.
type ValuesReference struct {
	// Kind of the object: Secret or ConfigMap.
	// +kubebuilder:validation:Enum=Secret;ConfigMap
	Kind string `json:"kind"`
	// Name of the object, in the resource's namespace.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Key that holds the values. Default: values.yaml.
	// +optional
	// +kubebuilder:default="values.yaml"
	Key string `json:"key,omitempty"`
	// Optional makes a missing object or key count as empty.
	// +optional
	Optional bool `json:"optional,omitempty"`
}
