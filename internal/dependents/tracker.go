// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package dependents

import (
	"context"
	"slices"
	"sync"
	"time"

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

// verification is the state in which an object was last looked at.
type verification struct {
	print   fingerprint
	version string
	// applied tells contents apart: what the object was made to be.
	applied uint64
	// absent is true when there was no object.
	absent bool
	// ready is how ready the object was then.
	ready Readiness
	// drift says how the object differed from its release, where that was only reported.
	drift string
	// under is the mode of treating drift in which the object was looked at, if
	// it was not made to be as released: in another mode that counts for nothing.
	under string
}

func (v verification) counts(mode string) bool { return v.under == "" || v.under == mode }

// ownerState is what is kept of one owner.
type ownerState struct {
	id       identity.Identity
	verified map[objectKey]verification
	refs     []Ref
	// awaited are objects that were judged not to exist, though they are known to.
	awaited map[objectKey]bool
	// basis is what the refs come from.
	basis Basis
	kinds map[informerKey]bool
}

// Basis is what makes up the list of an owner's objects: on another one, the list may be another.
type Basis struct {
	// Revision of the release.
	Revision int
	// Variant tells apart what else is asked of the objects than their release says, such as a number of replicas.
	Variant string
}

// Tracker watches released objects. It is safe for concurrent use.
type Tracker struct {
	pool       *identity.Pool
	namespaces []string
	log        logr.Logger
	wake       func(Owner)
	limit      int           // of watches, as far as tenants go
	retry      time.Duration // after which a watch that was refused is tried again

	mu        sync.Mutex
	stop      context.Context
	owners    map[Owner]*ownerState
	informers map[informerKey]*informer
}

// NewTracker returns a tracker that watches in the given namespaces (none: in
// all), until ctx ends. It calls wake for the owner of an object that changed.
func NewTracker(ctx context.Context, pool *identity.Pool, namespaces []string, log logr.Logger, wake func(Owner)) *Tracker {
	return &Tracker{
		pool: pool, namespaces: namespaces, log: log, wake: wake, stop: ctx, limit: maxInformers, retry: firstRetry,
		owners: map[Owner]*ownerState{}, informers: map[informerKey]*informer{},
	}
}

// Watch makes sure that changes of the objects wake their owners, and waits
// until the watches are established, or known to be refused. They last until
// Retain says that the owner has no such objects, or Forget.
func (t *Tracker) Watch(ctx context.Context, owner Owner, id identity.Identity, refs []Ref) error {
	clients, err := t.pool.For(id)
	if err != nil {
		return err
	}
	var started []*informer
	for _, ref := range refs {
		started = append(started, t.start(clients, owner, ref)...) //nolint:contextcheck // a watch outlives the call that starts it
	}
	for _, inf := range started {
		if err := inf.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Verified records that the live object was seen to be as it should. Applied
// tells contents apart: see Unchanged.
func (t *Tracker) Verified(owner, live *unstructured.Unstructured, applied uint64) {
	t.note(owner, live, verification{applied: applied})
}

// Drifted records that the live object may differ from its release in the way
// that is described, and that the given mode of treating drift leaves it so.
func (t *Tracker) Drifted(owner, live *unstructured.Unstructured, applied uint64, mode, what string) {
	t.note(owner, live, verification{applied: applied, drift: what, under: mode})
}

func (t *Tracker) note(owner, live *unstructured.Unstructured, v verification) {
	v.print, v.version, v.ready = fingerprintOf(live), live.GetResourceVersion(), Readiness{Ready: true}
	if !metadataOnly[live.GroupVersionKind().GroupKind()] {
		v.ready = objectReadiness(live)
	}
	key := objectKey{live.GroupVersionKind().GroupKind(), live.GetNamespace(), live.GetName()}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state(OwnerOf(owner.GroupVersionKind().GroupKind(), owner)).verified[key] = v
}

// Missing records that the object was seen not to exist, and that the given
// mode of treating drift leaves it so.
func (t *Tracker) Missing(owner *unstructured.Unstructured, ref Ref, applied uint64, mode, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state(OwnerOf(owner.GroupVersionKind().GroupKind(), owner)).verified[ref.key()] =
		verification{applied: applied, absent: true, drift: what, under: mode}
}

// Drift returns how the owner's objects differ from their release, as far as
// that was only reported.
func (t *Tracker) Drift(owner Owner) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	if state, ok := t.owners[owner]; ok {
		for _, v := range state.verified {
			if v.drift != "" {
				out = append(out, v.drift)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Unchanged tells whether the object is still as it was when last verified, and
// was verified with the same contents, in this mode of treating drift. A watch that has not yet delivered the
// verified state does not count as a change.
func (t *Tracker) Unchanged(owner *unstructured.Unstructured, id identity.Identity, ref Ref, applied uint64, mode string) bool {
	t.mu.Lock()
	v, ok := t.state(OwnerOf(owner.GroupVersionKind().GroupKind(), owner)).verified[ref.key()]
	inf := t.informer(id, ref)
	t.mu.Unlock()
	return ok && v.applied == applied && v.counts(mode) && inf.still(ref, v)
}

// Unmoved returns the objects that the owner retains, if there are any, on this
// very basis, and each is as it was when last verified: then there is nothing to look at.
func (t *Tracker) Unmoved(owner *unstructured.Unstructured, id identity.Identity, mode string, basis Basis) ([]Ref, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state, ok := t.owners[OwnerOf(owner.GroupVersionKind().GroupKind(), owner)]
	if !ok || state.refs == nil || state.id != id || state.basis != basis {
		return nil, false
	}
	for _, ref := range state.refs {
		v, ok := state.verified[ref.key()]
		if !ok || !v.counts(mode) || !t.informer(id, ref).still(ref, v) {
			return nil, false
		}
	}
	return state.refs, true
}

// Cached returns an object's metadata as the watch has it, nil where it does
// not exist. It reports false where there is no watch to believe, or where the
// watch has not yet seen what was verified last.
func (t *Tracker) Cached(owner *unstructured.Unstructured, id identity.Identity, ref Ref) (metav1.Object, bool) {
	t.mu.Lock()
	v, verified := t.state(OwnerOf(owner.GroupVersionKind().GroupKind(), owner)).verified[ref.key()]
	inf := t.informer(id, ref)
	t.mu.Unlock()
	shared := inf.watch()
	if shared == nil || !verified || v.absent {
		return nil, false
	}
	obj := cached(shared, ref)
	if obj == nil || older(obj.GetResourceVersion(), v.version) {
		return nil, false
	}
	return obj, true
}

// Retained returns the variant in which the owner's objects are retained.
func (t *Tracker) Retained(owner *unstructured.Unstructured) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if state, ok := t.owners[OwnerOf(owner.GroupVersionKind().GroupKind(), owner)]; ok {
		return state.basis.Variant
	}
	return ""
}

// Retain says that exactly these objects are the owner's: what is known of
// others is forgotten, and watches that nobody needs any more end.
func (t *Tracker) Retain(owner Owner, id identity.Identity, refs []Ref, basis Basis) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.state(owner)
	state.id, state.basis, state.refs = id, basis, append([]Ref{}, refs...)
	keep := make(map[objectKey]bool, len(refs))
	kinds := map[informerKey]bool{}
	for _, ref := range refs {
		keep[ref.key()] = true
		for _, ns := range t.scopes(id, ref) {
			kinds[informerKey{id, ref.Mapping.Resource, ns}] = true
		}
	}
	for key := range state.verified {
		if !keep[key] {
			delete(state.verified, key)
			delete(state.awaited, key)
		}
	}
	previous := state.kinds
	state.kinds = kinds
	t.release(previous)
}

// Known returns the objects that the owner retains, as far as this process has seen any.
func (t *Tracker) Known(owner Owner) []Ref {
	t.mu.Lock()
	defer t.mu.Unlock()
	if state, ok := t.owners[owner]; ok {
		return slices.Clone(state.refs)
	}
	return nil
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

// Readiness judges the owner's objects by what the watches hold, or by what was
// written where a watch has not seen that yet. Objects of kinds that cannot be
// watched are read.
func (t *Tracker) Readiness(ctx context.Context, owner Owner, id identity.Identity, refs []Ref) Readiness {
	all := make([]Readiness, 0, len(refs))
	for _, ref := range refs {
		all = append(all, t.readiness(ctx, owner, id, ref))
	}
	return summarize(all)
}

func (t *Tracker) readiness(ctx context.Context, owner Owner, id identity.Identity, ref Ref) Readiness {
	name := ref.Mapping.GroupVersionKind.Kind + " " + ref.Name
	t.mu.Lock()
	inf := t.informer(id, ref)
	v, verified := t.state(owner).verified[ref.key()]
	t.mu.Unlock()
	var obj metav1.Object
	if shared := inf.watch(); shared != nil {
		obj = cached(shared, ref)
		if verified && !v.absent && ((obj == nil && inf.still(ref, v)) || (obj != nil && older(obj.GetResourceVersion(), v.version))) {
			return v.ready
		}
		if obj == nil {
			t.await(owner, ref) // before another look: a watch is told of an object before its cache has it
			obj = cached(shared, ref)
		}
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

// Body returns an object of the owner's as its watch has it, trimmed. It reports
// false where there is no watch to believe, and nil where there is no object.
func (t *Tracker) Body(id identity.Identity, ref Ref) (*unstructured.Unstructured, bool) {
	t.mu.Lock()
	inf := t.informer(id, ref)
	t.mu.Unlock()
	shared := inf.watch()
	if shared == nil {
		return nil, false
	}
	obj, _ := cached(shared, ref).(*unstructured.Unstructured)
	return obj, true
}

// state returns what is kept of the owner. The caller holds the lock.
func (t *Tracker) state(owner Owner) *ownerState {
	s, ok := t.owners[owner]
	if !ok {
		s = &ownerState{verified: map[objectKey]verification{}, awaited: map[objectKey]bool{}}
		t.owners[owner] = s
	}
	return s
}

// await has the owner woken when the object shows, even if it is just as it was verified.
func (t *Tracker) await(owner Owner, ref Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state(owner).awaited[ref.key()] = true
}

// expected tells whether the object is in the state last verified for its
// owner, and the owner does not wait to hear of it.
func (t *Tracker) expected(owner Owner, key objectKey, seen fingerprint) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.owners[owner]
	if !ok {
		return false
	}
	awaited := s.awaited[key]
	delete(s.awaited, key)
	return !awaited && s.verified[key].print == seen
}
