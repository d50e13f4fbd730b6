// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Keeper is a Translator of a kind whose release keeps data: the claims of its
// StatefulSets grow with their templates, and what outlives the release goes
// with the resource where that says so.
type Keeper interface {
	Translator
	// Data describes what the resource keeps. It is asked, too, for a resource that can't be translated.
	Data(obj *unstructured.Unstructured) Data
}

// Data is what a resource keeps beyond its release: volume claims and Secrets in the release's namespace.
type Data struct {
	// Label and Value mark them.
	Label, Value string
	// Claim and Secret tell by its name whether one that is marked is the resource's.
	Claim, Secret func(name string) bool
	// Delete says that they go when the resource does.
	Delete bool
}
