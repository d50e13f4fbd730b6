// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package dependents

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/internal/identity"
)

// Ref names one released object.
type Ref struct {
	Mapping   *meta.RESTMapping
	Namespace string
	Name      string
}

// objectKey tells released objects apart.
type objectKey struct {
	schema.GroupKind
	namespace, name string
}

func (r Ref) key() objectKey {
	return objectKey{r.Mapping.GroupVersionKind.GroupKind(), r.Namespace, r.Name}
}

// verification is the state in which an object was last seen to be as released.
type verification struct {
	print   fingerprint
	version string
}

// ownerState is what is kept of one owner.
type ownerState struct {
	id       identity.Identity
	verified map[objectKey]verification
	kinds    map[informerKey]bool
}

// Tracker watches released objects. It is safe for concurrent use.
type Tracker struct {
	pool       *identity.Pool
	namespaces []string
	log        logr.Logger
	wake       func(Owner)

	mu        sync.Mutex
	stop      context.Context
	owners    map[Owner]*ownerState
	informers map[informerKey]*informer
}

// NewTracker returns a tracker that watches in the given namespaces (none: in
// all), until ctx ends. It calls wake for the owner of an object that changed.
func NewTracker(ctx context.Context, pool *identity.Pool, namespaces []string, log logr.Logger, wake func(Owner)) *Tracker {
	return &Tracker{
		pool: pool, namespaces: namespaces, log: log, wake: wake, stop: ctx,
		owners: map[Owner]*ownerState{}, informers: map[informerKey]*informer{},
	}
}

// Watch makes sure that changes of the kinds' objects wake their owners, and
// waits until the watches are established, or known to be forbidden.
func (t *Tracker) Watch(ctx context.Context, id identity.Identity, kinds []*meta.RESTMapping) error {
	var started []*informer
	for _, mapping := range kinds {
		infs, err := t.start(id, mapping) //nolint:contextcheck // a watch outlives the call that starts it
		if err != nil {
			return err
		}
		started = append(started, infs...)
	}
	for _, inf := range started {
		if err := inf.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Verified records that the live object is as its release says.
func (t *Tracker) Verified(owner, live *unstructured.Unstructured) {
	o := OwnerOf(owner.GroupVersionKind().GroupKind(), owner)
	key := objectKey{live.GroupVersionKind().GroupKind(), live.GetNamespace(), live.GetName()}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state(o).verified[key] = verification{print: fingerprintOf(live), version: live.GetResourceVersion()}
}

// Unchanged tells whether the object is still as it was when last verified. A
// watch that has not yet delivered the verified state does not count as a change.
func (t *Tracker) Unchanged(owner *unstructured.Unstructured, id identity.Identity, mapping *meta.RESTMapping, namespace, name string) bool {
	ref := Ref{Mapping: mapping, Namespace: namespace, Name: name}
	t.mu.Lock()
	v, ok := t.state(OwnerOf(owner.GroupVersionKind().GroupKind(), owner)).verified[ref.key()]
	inf := t.informer(id, ref)
	t.mu.Unlock()
	if !ok || inf == nil || !inf.watching() {
		return false
	}
	obj := inf.get(namespace, name)
	if obj == nil {
		return older(inf.shared.LastSyncResourceVersion(), v.version)
	}
	return fingerprintOf(obj) == v.print || older(obj.GetResourceVersion(), v.version)
}

// Retain says that exactly these objects are the owner's: what is known of
// others is forgotten, and watches that nobody needs any more end.
func (t *Tracker) Retain(owner Owner, id identity.Identity, refs []Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.state(owner)
	state.id = id
	keep := make(map[objectKey]bool, len(refs))
	kinds := map[informerKey]bool{}
	for _, ref := range refs {
		keep[ref.key()] = true
		for _, ns := range t.scopes(ref.Mapping) {
			kinds[informerKey{id, ref.Mapping.Resource, ns}] = true
		}
	}
	for key := range state.verified {
		if !keep[key] {
			delete(state.verified, key)
		}
	}
	previous := state.kinds
	state.kinds = kinds
	t.release(previous)
}

// Forget drops all that is known of an owner.
func (t *Tracker) Forget(owner Owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state, ok := t.owners[owner]
	if !ok {
		return
	}
	delete(t.owners, owner)
	t.release(state.kinds)
}

// release ends the watches among the keys that no owner needs any more.
func (t *Tracker) release(keys map[informerKey]bool) {
	for key := range keys {
		inf, ok := t.informers[key]
		if !ok || t.needed(key) {
			continue
		}
		inf.cancel()
		delete(t.informers, key)
	}
}

func (t *Tracker) needed(key informerKey) bool {
	for _, state := range t.owners {
		if state.kinds[key] {
			return true
		}
	}
	return false
}

// Readiness judges the objects by what the watches hold. Objects of kinds that
// cannot be watched are read.
func (t *Tracker) Readiness(ctx context.Context, id identity.Identity, refs []Ref) Readiness {
	all := make([]Readiness, 0, len(refs))
	for _, ref := range refs {
		all = append(all, t.readiness(ctx, id, ref))
	}
	return summarize(all)
}

func (t *Tracker) readiness(ctx context.Context, id identity.Identity, ref Ref) Readiness {
	name := ref.Mapping.GroupVersionKind.Kind + " " + ref.Name
	t.mu.Lock()
	inf := t.informer(id, ref)
	t.mu.Unlock()
	var obj metav1.Object
	if inf != nil && inf.watching() {
		obj = inf.get(ref.Namespace, ref.Name)
	} else {
		live, err := t.read(ctx, id, ref)
		if err != nil {
			return Readiness{Message: name + ": " + err.Error()}
		}
		obj = live
	}
	switch o := obj.(type) {
	case nil:
		return Readiness{Message: name + " does not exist yet"}
	case *unstructured.Unstructured:
		if o == nil {
			return Readiness{Message: name + " does not exist yet"}
		}
		return objectReadiness(o)
	default:
		if o.GetDeletionTimestamp() != nil {
			return Readiness{Message: name + " is being deleted"}
		}
		return Readiness{Ready: true}
	}
}

// state returns what is kept of the owner. The caller holds the lock.
func (t *Tracker) state(owner Owner) *ownerState {
	s, ok := t.owners[owner]
	if !ok {
		s = &ownerState{verified: map[objectKey]verification{}}
		t.owners[owner] = s
	}
	return s
}

// verifiedState tells whether the object is in the state last verified for its owner.
func (t *Tracker) verifiedState(owner Owner, key objectKey, seen fingerprint) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.owners[owner]
	return ok && s.verified[key].print == seen
}
