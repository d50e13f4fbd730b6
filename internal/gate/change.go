// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// Change is what gates are asked about.
type Change struct {
	// Namespace and Name of the custom resource.
	Namespace, Name string
	// TargetNamespace of the release. Default: that of the resource.
	TargetNamespace string
	// Digest of the change, in full.
	Digest string
	// GroupVersionKind of the custom resource. Default: the one that Object states.
	GroupVersionKind schema.GroupVersionKind
	// Object is the custom resource: the snapshot that is to be released. It is not changed.
	Object *unstructured.Unstructured
	// Plan is the name of the ConfigMap that shows what the change would do, for messages. May be empty.
	Plan string
	// CrossNamespaceRefs lets gates refer to any namespace and to cluster-scoped
	// objects. Without it they are kept to the resource's own and its target namespace.
	CrossNamespaceRefs bool
	// Reader reads the objects that gates refer to, as whoever serves the resource.
	Reader Reader
	// Clock tells the time. Default: the real one.
	Clock clock.PassiveClock
}

// kind is the resource's kind.
func (c Change) kind() schema.GroupVersionKind {
	if c.GroupVersionKind.Empty() && c.Object != nil {
		return c.Object.GroupVersionKind()
	}
	return c.GroupVersionKind
}

// target is the namespace of the release.
func (c Change) target() string {
	if c.TargetNamespace == "" {
		return c.Namespace
	}
	return c.TargetNamespace
}

// home tells whether a gate may look into the namespace.
func (c Change) home(namespace string) bool {
	return c.CrossNamespaceRefs || namespace == c.Namespace || namespace == c.target()
}

func (c Change) now() time.Time {
	if c.Clock == nil {
		return time.Now()
	}
	return c.Clock.Now()
}

// freeze stops the change's clock, so that all gates see the same time.
func (c *Change) freeze() { c.Clock = frozen{c.now()} }

// frozen is a clock that stands still.
type frozen struct{ at time.Time }

var _ clock.PassiveClock = frozen{}

func (f frozen) Now() time.Time                  { return f.at }
func (f frozen) Since(t time.Time) time.Duration { return f.at.Sub(t) }

// reader is the change's; without one, nothing can be read.
func (c Change) reader() Reader {
	if c.Reader == nil {
		return noReader{}
	}
	return c.Reader
}
