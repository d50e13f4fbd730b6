// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/identity"
)

// use is an object that an owner's gates look at, and who reads it.
type use struct {
	id  identity.Identity
	ref gate.Ref
}

// useOf is the use of the object for an owner that is served as the identity.
func useOf(id identity.Identity, ref gate.Ref) use {
	if ref.Approves != "" {
		id = identity.Operator
	}
	return use{id, ref}
}

// target is what an event is about.
type target struct {
	watch watchKey
	// kind is empty, but for ReleaseApprovals that are looked up by what they
	// approve: the kind of that, whose name is the target's.
	kind string
	name string
}

// watchKey tells watches apart. The namespace of cluster-scoped kinds is empty.
type watchKey struct {
	id        identity.Identity
	kind      schema.GroupVersionKind
	namespace string
}

var releaseApprovals = v1alpha1.GroupVersion.WithKind(v1alpha1.KindReleaseApproval)

func (u use) watch() watchKey { return watchKey{u.id, u.ref.GroupVersionKind, u.ref.Namespace} }

func (u use) target() target {
	t := target{watch: u.watch(), name: u.ref.Name}
	if u.ref.GroupVersionKind == releaseApprovals {
		t.kind = u.ref.Approves
	}
	return t
}

// ownerState is what is kept of one owner.
type ownerState struct {
	// uses are the objects it looks at, with the epoch in which each was last read or named.
	uses map[use]int
	// told are those that Refer named.
	told map[use]bool
	// contents are those that were read for chart and values since then.
	contents map[use]bool
	// epoch counts the calls of Refer.
	epoch int
}

// state returns what is kept of the owner. The caller holds the lock.
func (i *Inputs) state(owner dependents.Owner) *ownerState {
	s, ok := i.owners[owner]
	if !ok {
		s = &ownerState{uses: map[use]int{}, contents: map[use]bool{}}
		i.owners[owner] = s
	}
	return s
}

// add notes a use. The caller holds the lock.
func (i *Inputs) add(owner dependents.Owner, state *ownerState, u use) {
	_, known := state.uses[u]
	state.uses[u] = state.epoch
	if known {
		return
	}
	i.uses[u.watch()]++
	t := u.target()
	if i.index[t] == nil {
		i.index[t] = map[dependents.Owner]int{}
	}
	i.index[t][owner]++
}

// remove takes a use back, and ends its watch if it was the last. The caller holds the lock.
func (i *Inputs) remove(owner dependents.Owner, state *ownerState, u use) {
	delete(state.uses, u)
	t, key := u.target(), u.watch()
	if i.index[t][owner]--; i.index[t][owner] <= 0 {
		delete(i.index[t], owner)
	}
	w := i.watches[key]
	if len(i.index[t]) == 0 {
		delete(i.index, t)
		if w != nil {
			w.bodies.drop(t.name)
		}
	}
	if i.uses[key]--; i.uses[key] > 0 {
		return
	}
	delete(i.uses, key)
	if w != nil {
		w.cancel()
		delete(i.watches, key)
	}
}

// changed wakes the owners that look at any of the targets.
func (i *Inputs) changed(targets ...target) {
	owners := map[dependents.Owner]bool{}
	i.mu.Lock()
	for _, t := range targets {
		for owner := range i.index[t] {
			owners[owner] = true
		}
	}
	i.mu.Unlock()
	i.wakeAll(slices.Collect(maps.Keys(owners)))
}

func (i *Inputs) wakeAll(owners []dependents.Owner) {
	for _, owner := range owners {
		i.wake(owner)
	}
}

// approvers are the owners that look at ReleaseApprovals.
func (i *Inputs) approvers() []dependents.Owner {
	i.mu.Lock()
	defer i.mu.Unlock()
	owners := map[dependents.Owner]bool{}
	for t, by := range i.index {
		if t.kind == "" {
			continue
		}
		for owner := range by {
			owners[owner] = true
		}
	}
	return slices.Collect(maps.Keys(owners))
}
