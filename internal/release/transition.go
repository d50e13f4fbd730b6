// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// transition takes the cluster from what earlier revisions released to the
// target. Objects that the change leaves as they are, and that nobody touched
// since they were verified, cost no request; those that it alters cost one.
type transition struct {
	session *Session
	applier applier
	// before are the objects as the deployed revision has them.
	before map[objectKey]object
	// stale are objects that only revisions which failed have: they go unless the target has them.
	stale map[objectKey]object
	// force replaces objects instead of patching them.
	force bool
	// backwards is true when a change that failed is taken back. What outlives the release stays as it is then.
	backwards bool

	mu   sync.Mutex
	uids map[types.UID]bool // of what was applied
}

func newTransition(s *Session, a applier) *transition {
	return &transition{session: s, applier: a, before: map[objectKey]object{}, stale: map[objectKey]object{}, uids: map[types.UID]bool{}}
}

// run applies the target, then removes what it no longer has.
func (t *transition) run(target []object) error {
	if err := t.session.watch(target); err != nil {
		return err
	}
	err := eachKind(target, func(i int) error {
		live, err := t.apply(target[i])
		if err != nil {
			return err
		}
		if live != nil {
			t.note(target[i], live)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.remove(target)
}

func (t *transition) note(o object, live *unstructured.Unstructured) {
	t.mu.Lock()
	t.uids[live.GetUID()] = true
	t.mu.Unlock()
	t.session.verified(o, live)
}

// apply makes one object as the target has it. It returns the object as the
// server has it then; nil where it is known to be so already.
func (t *transition) apply(target object) (*unstructured.Unstructured, error) {
	before, had := t.before[target.key()]
	if !had {
		return t.create(target)
	}
	if !t.force && t.session.unchanged(before, "") {
		if reflect.DeepEqual(before.obj.Object, target.obj.Object) {
			return nil, nil
		}
		if !scales(before.obj, target.obj) && sameClaims(before.obj, target.obj) && !t.leaves(target.obj) {
			live, err := t.applier.patchTo(target, before.obj, target.obj, before.obj, nil)
			if !apierrors.IsNotFound(err) {
				return live, err
			}
		}
	}
	live, err := t.applier.get(target)
	if err != nil {
		return nil, err
	}
	if live == nil {
		return t.create(target)
	}
	return t.change(before.obj, target, live)
}

// change takes a live object to the target.
func (t *transition) change(before *unstructured.Unstructured, target object, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if t.outgrown(target, live) {
		return t.regrow(target, live)
	}
	if t.leaves(target.obj) || t.leaves(live) {
		return live, nil
	}
	if kept(target.obj) || kept(live) {
		after, err := t.applier.patchTo(target, before, target.obj, before, live) // what the chart changed, and nothing else
		return after, err
	}
	if t.force {
		return t.applier.replace(target, live)
	}
	original, want := spare(before, target.obj, live)
	if t.session.grows(target) {
		withoutClaims(original, want) // they are as large as asked for, or larger
	}
	after, err := t.applier.patchTo(target, original, want, live, live)
	return after, err
}

// leaves tells whether an object that exists is left as it is: what outlives a
// release is not taken back with a change that failed, since others may have
// changed it meanwhile, as a password.
func (t *transition) leaves(obj *unstructured.Unstructured) bool { return t.backwards && kept(obj) }

// create makes an object that the release did not have. One that is there
// already is taken over if it carries the release's mark, as after an action
// that was interrupted, and is an error if it does not.
func (t *transition) create(target object) (*unstructured.Unstructured, error) {
	if err := t.growClaims(target); err != nil {
		return nil, err
	}
	for range 3 {
		live, err := t.applier.create(target)
		if err == nil {
			return live, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		live, err = t.applier.get(target)
		switch {
		case err != nil:
			return nil, err
		case live == nil:
			continue
		case live.GetDeletionTimestamp() != nil:
			if err := t.applier.waitGone(target, string(live.GetUID())); err != nil {
				return nil, err
			}
			continue
		case !ownedBy(live, t.session.change):
			return nil, terminal(CauseOwnership, fmt.Errorf("%s exists and %s; it is left alone. Delete or rename it, or choose another name for this resource",
				target, whose(live)))
		}
		return t.change(target.obj, target, live)
	}
	return nil, fmt.Errorf("create %s: somebody else creates and deletes it at the same time", target)
}

// remove deletes what the target no longer has, unless it is to be kept or is somebody else's.
func (t *transition) remove(target []object) error {
	stays := make(map[objectKey]bool, len(target))
	for _, o := range target {
		stays[o.key()] = true
	}
	var gone []object
	for _, o := range t.all() {
		if !stays[o.key()] {
			stays[o.key()] = true
			gone = append(gone, o)
		}
	}
	var errs []error
	for _, o := range uninstallOrder(gone) {
		_, err := t.removeOwned(o)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// all are the objects that there may be.
func (t *transition) all() []object {
	return slices.Concat(slices.Collect(maps.Values(t.before)), slices.Collect(maps.Values(t.stale)))
}

// removeOwned deletes an object of those before the target.
func (t *transition) removeOwned(o object) (metav1.Object, error) {
	live, err := t.session.removeOwned(t.applier, o, t.uids)
	if _, deployed := t.before[o.key()]; !deployed {
		err = unlessUnseen(err)
	}
	return live, err
}

// unseenError says that the identity may not look at an object.
type unseenError struct{ err error }

func (e *unseenError) Error() string { return e.err.Error() }
func (e *unseenError) Unwrap() error { return e.err }

// unlessUnseen returns the error, but none where the identity may not even look
// at the object. That is for objects of which it is not known that they were ever
// made: a try that was refused did not make what it was refused.
func unlessUnseen(err error) error {
	if _, unseen := errors.AsType[*unseenError](err); unseen {
		return nil
	}
	return err
}

// removeOwned deletes the object if it is the release's own, is not to be kept
// and is none of those spared. It returns the object it deleted.
func (s *Session) removeOwned(a applier, o object, spared map[types.UID]bool) (metav1.Object, error) {
	if kept(o.obj) {
		return nil, nil
	}
	live, known := s.engine.tracker.Cached(s.change.Owner, s.change.Identity, o.ref())
	if !known {
		obj, err := a.get(o)
		if apierrors.IsForbidden(err) {
			return nil, &unseenError{err}
		}
		if err != nil || obj == nil {
			return nil, err
		}
		live = obj
	}
	if live == nil || live.GetDeletionTimestamp() != nil || spared[live.GetUID()] || kept(live) || !ownedBy(live, s.change) {
		return nil, nil
	}
	return live, a.remove(o, live)
}
