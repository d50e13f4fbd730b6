// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"maps"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Scale is a number of replicas that a resource asks for and that is no part of
// its change: another number is set on the object at once, without a revision
// and without asking a gate. An autoscaler of the object itself is not fought.
type Scale struct {
	// GroupKind and Name of the object, in the release's namespace.
	GroupKind schema.GroupKind
	Name      string
	// Replicas for its spec.replicas.
	Replicas int64
	// Value is the key, at the top of the values, under which the chart is given the number.
	Value string
}

// String tells scales apart. It is empty for none.
func (s *Scale) String() string {
	if s == nil {
		return ""
	}
	return strconv.FormatInt(s.Replicas, 10)
}

// without returns the values without the number of replicas.
func (s *Scale) without(values map[string]any) map[string]any {
	if s == nil {
		return values
	}
	out := maps.Clone(values)
	delete(out, s.Value)
	return out
}

// of tells whether the scale is the object's.
func (s *Scale) of(o object, namespace string) bool {
	return s != nil && o.key() == objectKey{s.GroupKind, namespace, s.Name}
}

// set gives the object among these the number of replicas that is asked for:
// what is released may have another.
func (s *Scale) set(objects []object, namespace string) error {
	for _, o := range objects {
		if !s.of(o, namespace) {
			continue
		}
		if err := unstructured.SetNestedField(o.obj.Object, s.Replicas, "spec", "replicas"); err != nil {
			return fmt.Errorf("replicas of %s: %w", o, err)
		}
	}
	return nil
}

// rescales tells whether the object is to have another number of replicas than
// it was given last, whatever is done about drift.
func (s *Session) rescales(o object) bool {
	return s.change.Scale.of(o, s.change.Namespace) && s.engine.tracker.Retained(s.change.Owner) != s.Basis().Variant
}

// scale sets the object's replicas and nothing else, and only if nobody else
// scales it. Then it looks at the object for drift.
func (s *Session) scale(a applier, o object) error {
	for range busyTries {
		live, err := a.get(o)
		if err != nil {
			return err
		}
		if live == nil || autoscaled(live) || kept(live) || live.GetDeletionTimestamp() != nil || !ownedBy(live, s.change) {
			return s.look(a, o)
		}
		target := object{mapping: o.mapping, obj: live.DeepCopy()}
		if err := unstructured.SetNestedField(target.obj.Object, s.change.Scale.Replicas, "spec", "replicas"); err != nil {
			return fmt.Errorf("replicas of %s: %w", o, err)
		}
		_, _, err = a.patchLive(target, live, target.obj, live)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return err
		}
		return s.look(a, o)
	}
	return fmt.Errorf("scale %s: somebody else writes it all the time", o)
}
