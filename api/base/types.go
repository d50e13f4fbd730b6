// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package base is the shape that every Chartgate kind starts from: the shared
// settings, the shared status and the printer columns. controller-gen turns it
// into the CRD that chartgen grows a chart's own fields into; no object of kind
// Base ever exists in a cluster.
//
// +groupName=apps.chartgate.dev
// +versionName=v1alpha1
package base

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// Base is a release of a Helm chart, managed by Chartgate.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=bases,categories=chartgate
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Where the release is in its life"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the released objects are ready"
// +kubebuilder:printcolumn:name="Gates",type=string,JSONPath=`.status.gatesPassed`,description="Gates that passed, of all"
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.revision`,description="Deployed Helm revision"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Chart",type=string,priority=1,JSONPath=`.status.chart`,description="Deployed chart"
// +kubebuilder:printcolumn:name="Version",type=string,priority=1,JSONPath=`.status.lastDeployedVersion`,description="Version of the deployed chart"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`,description="What goes on, or what to do"
type Base struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec holds the chart's values and Chartgate's settings.
	Spec v1alpha1.CommonSpec `json:"spec,omitempty"`
	// Status is written by Chartgate.
	Status v1alpha1.CommonStatus `json:"status,omitempty"`
}
