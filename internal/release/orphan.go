// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
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
	s.engine.Forget(s.change.Namespace, s.change.Name)
	return names, nil
}

// letGo takes the way back to the owner off an object, so that it outlives the owner.
func (s *Session) letGo(a applier, o object) error {
	live, err := a.get(o)
	if err != nil || live == nil || !ownedBy(live, s.change) {
		return err
	}
	bare := o.obj.DeepCopy()
	disown(bare, func(ref metav1.OwnerReference) bool { return ref.UID == s.change.Owner.GetUID() })
	_, _, err = a.patchTo(o, o.obj, bare, o.obj, live)
	return err
}
