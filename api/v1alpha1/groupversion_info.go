// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the API types of apps.chartgate.dev/v1alpha1: the
// settings and the status that all Chartgate kinds share.
//
// Kinds whose spec is generated from a chart (Guestbook, and whatever
// chartgen adds) have no Go type of their own: the operator handles them as
// unstructured objects and reads the shared parts through these types.
//
// +kubebuilder:object:generate=true
// +groupName=apps.chartgate.dev
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// GroupVersion is the group and version of every kind Chartgate ships.
var GroupVersion = schema.GroupVersion{Group: "apps.chartgate.dev", Version: "v1alpha1"}

// Category is the CRD category of all Chartgate kinds: "kubectl get chartgate"
// lists them together.
const Category = "chartgate"
