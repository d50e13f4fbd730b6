// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package dependents

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// Readiness of one object, or of all objects of a release.
type Readiness struct {
	// Ready is true when the object does what it was released for.
	Ready bool
	// Failed is true when it will not become ready by waiting.
	Failed bool
	// Message names the object and says what it waits for. Empty when ready.
	Message string
}

// objectReadiness judges one object by kstatus.
func objectReadiness(obj *unstructured.Unstructured) Readiness {
	name := obj.GetKind() + " " + obj.GetName()
	result, err := status.Compute(obj)
	if err != nil {
		return Readiness{Message: fmt.Sprintf("%s: its status cannot be read: %v", name, err)}
	}
	switch result.Status {
	case status.CurrentStatus:
		return Readiness{Ready: true}
	case status.FailedStatus:
		return Readiness{Failed: true, Message: name + ": " + result.Message}
	case status.TerminatingStatus:
		return Readiness{Message: name + " is being deleted"}
	default:
		return Readiness{Message: name + ": " + result.Message}
	}
}

// summarize is the readiness of all: ready when each is, failed when one is.
// The first message that matters is kept, the rest are counted.
func summarize(all []Readiness) Readiness {
	out := Readiness{Ready: true}
	waiting := 0
	for _, r := range all {
		if r.Ready {
			continue
		}
		waiting++
		if out.Ready || (r.Failed && !out.Failed) {
			out.Message = r.Message
		}
		out.Ready = false
		out.Failed = out.Failed || r.Failed
	}
	if waiting > 1 {
		out.Message = fmt.Sprintf("%s (and %d more objects are not ready)", out.Message, waiting-1)
	}
	return out
}
