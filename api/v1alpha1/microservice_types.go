// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindMicroservice is the kind of manifests that are written right into the resource.
const KindMicroservice = "Microservice"

// Microservice releases the manifests in its own spec. It acts as a ServiceAccount of its own namespace, so
// it can do what its author can, and no more.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=microservices,singular=microservice,scope=Namespaced,shortName=ms,categories=chartgate
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Where the release is in its life"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all of it is ready"
// +kubebuilder:printcolumn:name="Gates",type=string,JSONPath=`.status.gatesPassed`,description="Gates that passed, of all"
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.revision`,description="Deployed Helm revision"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Chart",type=string,priority=1,JSONPath=`.status.chart`,description="Deployed chart"
// +kubebuilder:printcolumn:name="Version",type=string,priority=1,JSONPath=`.status.lastDeployedVersion`,description="Version of the deployed chart"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`,description="What goes on, or what to do"
type Microservice struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec holds the manifests.
	Spec MicroserviceSpec `json:"spec"`
	// Status is written by Chartgate.
	// +optional
	Status MicroserviceStatus `json:"status,omitempty"`
}

// MicroserviceSpec holds the manifests.
type MicroserviceSpec struct {
	CommonSpec `json:",inline"`

	// Resources are Kubernetes manifests in YAML, separated by lines of "---". They are a Helm template like
	// any other: {{ .Release.Name }}, {{ .Release.Namespace }}, {{ .Values }} (of release.valuesFrom) and Helm's
	// functions work. Objects without a namespace go into the Microservice's own.
	// +kubebuilder:validation:MaxLength=524288
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="resources must not be empty: write Kubernetes manifests in YAML, separated by lines of ---"
	Resources string `json:"resources"`
}

// MicroserviceStatus is the state of a Microservice.
type MicroserviceStatus struct {
	CommonStatus `json:",inline"`
}

// MicroserviceList is a list of Microservices.
//
// +kubebuilder:object:root=true
type MicroserviceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Microservice `json:"items"`
}
