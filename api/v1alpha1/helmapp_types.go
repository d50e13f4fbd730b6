// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindHelmApp is the kind of charts that are chosen at run time.
const KindHelmApp = "HelmApp"

// HelmApp releases a chart of a chart repository or an OCI registry. It acts as a ServiceAccount of its own
// namespace, so it can do what its author can, and no more.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=helmapps,singular=helmapp,scope=Namespaced,shortName=ha,categories=chartgate
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Where the release is in its life"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all of it is ready"
// +kubebuilder:printcolumn:name="Gates",type=string,JSONPath=`.status.gatesPassed`,description="Gates that passed, of all"
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.revision`,description="Deployed Helm revision"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Target",type=string,priority=1,JSONPath=`.status.releaseNamespace`,description="Namespace of the release"
// +kubebuilder:printcolumn:name="Chart",type=string,priority=1,JSONPath=`.status.chart`,description="Deployed chart"
// +kubebuilder:printcolumn:name="Version",type=string,priority=1,JSONPath=`.status.lastDeployedVersion`,description="Version of the deployed chart"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`,description="What goes on, or what to do"
type HelmApp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which chart to release, where, and with which values.
	Spec HelmAppSpec `json:"spec"`
	// Status is written by Chartgate.
	// +optional
	Status HelmAppStatus `json:"status,omitempty"`
}

// HelmAppSpec says which chart to release, where, and with which values.
//
// +kubebuilder:validation:XValidation:rule="has(self.targetNamespace) == has(oldSelf.targetNamespace) && (!has(self.targetNamespace) || self.targetNamespace == oldSelf.targetNamespace)",fieldPath=".targetNamespace",message="targetNamespace can't be changed: set it back, or make another HelmApp with the new one and delete this one"
type HelmAppSpec struct {
	CommonSpec `json:",inline"`

	// Chart to release.
	Chart HelmAppChart `json:"chart"`

	// TargetNamespace is where the release is stored and its objects go, unless they say otherwise. The
	// HelmApp's ServiceAccount needs rights there. It can't be changed. Default: the HelmApp's own namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="not a name of a namespace: use at most 63 characters, lower-case letters, digits and '-', with a letter or digit first and last"
	TargetNamespace string `json:"targetNamespace,omitempty"`

	// CreateNamespace makes the target namespace where it is missing, if the HelmApp's ServiceAccount may.
	// +optional
	// +kubebuilder:default=true
	CreateNamespace *bool `json:"createNamespace,omitempty"`

	// Values for the chart, as in its values.yaml.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Values *apiextensionsv1.JSON `json:"values,omitempty"`
}

// HelmAppChart names a chart and where it is found.
//
// +kubebuilder:validation:XValidation:rule="self.repository.startsWith('oci://') || (has(self.name) && self.name.size() > 0)",message="a chart repository holds many charts: set name to the one to release"
type HelmAppChart struct {
	// Repository that holds the chart: a chart repository (https://charts.example.com), or a chart in an OCI
	// registry (oci://registry.example.com/charts/shop, or without its last part where name gives it).
	// Plain http:// works only where the operator allows it.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^(https?|oci)://')",message="repository has to start with https:// for a chart repository or oci:// for a registry, such as https://charts.example.com or oci://registry.example.com/charts"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[a-z]+://[^/]*@')",message="repository must not hold a user or password: put them into a Secret (keys username and password) and name it in secretRef"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[a-z]+://') || self.matches('^[a-z]+://[^/]*@') || self.matches(r'^[a-z]+://([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?|\\[[0-9a-fA-F:.]+\\])(:[0-9]{1,5})?(/[-a-zA-Z0-9._~+]+)*/?$')",message="repository has to be a host and a path without query or spaces, such as https://charts.example.com/stable; the version of an OCI chart belongs into version"
	Repository string `json:"repository"`

	// Name of the chart. Required for a chart repository. For a registry it is added to the repository's path.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-zA-Z0-9]([-a-zA-Z0-9._]*[a-zA-Z0-9])?$')",message="not a name of a chart: use letters, digits, '-', '_' and '.', with a letter or digit first and last"
	Name string `json:"name,omitempty"`

	// Version of the chart: exact, such as 1.4.2, or a range, such as ^1.4, ~1.4.2, 1.x or ">=1.4 <3". Of a
	// range the newest version is released; a range without a pre-release matches none.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches(r'^[ ]*((=|!=|>|<|>=|=>|<=|=<|~|~>|\\^)[ ]*)?v?([0-9]+|[xX*])(\\.([0-9]+|[xX*])){0,2}(-[-0-9A-Za-z.]+)?(\\+[-0-9A-Za-z.]+)?(([ ]*,[ ]*|[ ]*[|][|][ ]*|[ ]+-[ ]+|[ ]+)((=|!=|>|<|>=|=>|<=|=<|~|~>|\\^)[ ]*)?v?([0-9]+|[xX*])(\\.([0-9]+|[xX*])){0,2}(-[-0-9A-Za-z.]+)?(\\+[-0-9A-Za-z.]+)?)*[ ]*$')",message="not a version: write an exact one such as 1.4.2, or a range such as ^1.4, ~1.4.2, 1.x or '>=1.4 <3', in quotes"
	Version string `json:"version"`

	// CheckInterval in seconds: how often the gates are looked at again when no watch reports a change. It
	// holds for all gates of the HelmApp.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	CheckInterval *int32 `json:"checkInterval,omitempty"`

	// UpdateInterval is how often a range is looked up again, such as 10m. A new match is a change like any
	// other: gates hold it. An exact version is looked up once.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('10s')",message="updateInterval has to be a duration of 10s at least, such as 10m or 1h"
	UpdateInterval *metav1.Duration `json:"updateInterval,omitempty"`

	// SecretRef names a Secret of the HelmApp's namespace for the repository. Its keys: username and
	// password, or .dockerconfigjson; ca.crt, which is trusted besides the usual authorities; tls.crt and
	// tls.key, a client certificate.
	// +optional
	SecretRef *HelmAppSecretReference `json:"secretRef,omitempty"`

	// Verify makes only a chart that is signed by a known key be released.
	// +optional
	Verify *HelmAppVerify `json:"verify,omitempty"`
}

// HelmAppVerify says whose signature a chart needs.
type HelmAppVerify struct {
	// SecretRef names a Secret of the HelmApp's namespace that holds the public keys (OpenPGP, armored or not).
	SecretRef HelmAppSecretKeyReference `json:"secretRef"`
}

// HelmAppSecretReference names a Secret of the HelmApp's namespace.
type HelmAppSecretReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="not a name of a Secret: use lower-case letters, digits, '-' and '.'"
	Name string `json:"name"`
}

// HelmAppSecretKeyReference names a key of a Secret of the HelmApp's namespace.
type HelmAppSecretKeyReference struct {
	HelmAppSecretReference `json:",inline"`

	// Key of the Secret. Default: keyring.gpg.
	// +optional
	// +kubebuilder:default="keyring.gpg"
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// HelmAppStatus is the state of a HelmApp.
type HelmAppStatus struct {
	CommonStatus `json:",inline"`

	// Resolved is the chart that was found last for the spec, released or not yet.
	// +optional
	Resolved *ResolvedChart `json:"resolved,omitempty"`
}

// ResolvedChart is a chart that was found in a repository.
type ResolvedChart struct {
	// Version of the chart.
	Version string `json:"version"`
	// Digest of the chart's archive: sha256 in hex.
	Digest string `json:"digest"`
	// SignedBy tells whose signature was verified. Empty where none was asked for.
	// +optional
	SignedBy string `json:"signedBy,omitempty"`
	// Time at which this very chart was first found.
	Time metav1.Time `json:"time"`
}

// HelmAppList is a list of HelmApps.
//
// +kubebuilder:object:root=true
type HelmAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []HelmApp `json:"items"`
}
