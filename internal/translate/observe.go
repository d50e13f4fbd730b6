// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object names one object of a release, in the release's namespace.
type Object struct {
	GroupKind schema.GroupKind
	Name      string
}

// Scaler is a Translator of a kind whose replicas are no part of a change: they
// are set at once, without a revision and without asking a gate.
type Scaler interface {
	Translator
	// Scaled names the object that has the replicas, and the key, at the top of
	// the values, under which the chart is given their number.
	Scaled(obj *unstructured.Unstructured) (object Object, value string)
}

// Observer is a Translator of a kind whose status tells of the workload that
// its release runs: the resource goes on from Deployed to Updating and Running.
type Observer interface {
	Translator
	// Observed names the objects that the status tells of, the workload first.
	Observed(obj *unstructured.Unstructured) []Object
	// Observe makes the kind's own part of the status out of these objects, in
	// the order of Observed. One that does not exist is nil.
	Observe(obj *unstructured.Unstructured, live []*unstructured.Unstructured) Observation
}

// Observation is what the status tells of a workload.
type Observation struct {
	// Fields of the status that are the kind's own, as JSON. Nil takes a field away.
	Fields map[string]any
	// Ready and Desired count replicas.
	Ready, Desired int64
}

// Number returns a whole number of an object; 0 where it has none, or does not exist.
func Number(obj *unstructured.Unstructured, path ...string) int64 {
	if obj == nil {
		return 0
	}
	n, _, _ := unstructured.NestedInt64(obj.Object, path...)
	return n
}
