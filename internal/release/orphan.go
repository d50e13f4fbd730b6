// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/identity"
	"github.com/chartgate/chartgate/internal/release/store"
)

// Orphan lets go of the release: it and its objects stay, and no longer point to their owner.
// It returns the names of the objects.
func (s *Session) Orphan() ([]string, error) {
	if err := s.readRecords(); err != nil {
		return nil, err
	}
	if len(s.records) == 0 || !s.owned() {
		return nil, nil
	}
	ctx, cancel := s.bounded()
	defer cancel()
	t := newTransition(s, s.applier(ctx, false))
	if err := s.former(t, s.nextVersion()); err != nil {
		return nil, err
	}
	var names []string
	for _, o := range t.before {
		if err := s.letGo(t.applier, o); err != nil {
			return nil, timedOut(ctx, err)
		}
		names = append(names, o.String())
	}
	slices.Sort(names)
	for _, r := range s.records {
		drop := map[string]*string{v1alpha1.LabelOwner: nil, v1alpha1.LabelRevision: nil, v1alpha1.LabelDigest: nil, v1alpha1.LabelHolder: nil}
		if _, err := s.store.Relabel(r, drop, true); err != nil {
			return nil, fmt.Errorf("let go of revision %d of release %s: %w", r.Version, r.Name, err)
		}
	}
	s.engine.Forget(s.change.owner())
	return names, nil
}

// Remaining names the objects of a release that is given up because the identity
// that serves it can't remove it: those that this process watched, else
// those of the stored release, which the operator reads for its owner. It names
// nothing that is not on record as Chartgate's own, so that a forged release tells
// its author nothing about what is elsewhere. Empty where nothing is known.
func (e *Engine) Remaining(ctx context.Context, change Change) ([]string, error) {
	var names []string
	for _, ref := range e.tracker.Known(change.owner()) {
		names = append(names, (object{mapping: ref.Mapping, obj: named(ref)}).String())
	}
	if len(names) > 0 {
		return names, nil
	}
	change.Identity = identity.Operator
	s, err := e.Session(ctx, change)
	if err != nil {
		return nil, err
	}
	if err := s.readRecords(); err != nil {
		return nil, err
	}
	t := newTransition(s, s.applier(ctx, false))
	s.records = slices.DeleteFunc(s.records, func(r store.Record) bool {
		payload, err := s.payload(r)
		return err != nil || !s.isWritten(payload)
	})
	if len(s.records) == 0 {
		return nil, nil
	}
	if err := s.former(t, s.nextVersion()); err != nil {
		return nil, err
	}
	for _, o := range t.all() {
		names = append(names, o.String())
	}
	slices.Sort(names)
	return names, nil
}

func named(ref dependents.Ref) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetNamespace(ref.Namespace)
	obj.SetName(ref.Name)
	return obj
}

// letGo takes the way back to the owner off an object, so that it outlives the owner.
func (s *Session) letGo(a applier, o object) error {
	live, err := a.get(o)
	if err != nil || live == nil || !ownedBy(live, s.change) {
		return err
	}
	bare := o.obj.DeepCopy()
	disown(bare, func(ref metav1.OwnerReference) bool { return ref.UID == s.change.Owner.GetUID() })
	_, err = a.patchTo(o, o.obj, bare, o.obj, live)
	return err
}
