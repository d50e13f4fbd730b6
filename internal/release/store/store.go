// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store keeps Helm releases in Secrets, in Helm 3's own format, so that
// the helm CLI reads what Chartgate releases and the other way round. Reads
// come from watches of the Secrets' metadata and a cache of decoded releases,
// and always see what was written through the same Store. Releases that are too
// large for one Secret are split.
package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/chartgate/chartgate/internal/identity"
)

const (
	// maxViews bounds the watches of other identities and namespaces than the
	// operator's own. Past it, those that serve nobody by name end, the least
	// recently used first; if all serve somebody, whoever comes next does without one.
	maxViews = 1024
	// settleTimeout bounds the wait for a watch to be in sync.
	settleTimeout = 10 * time.Second
)

// Store holds the releases of all namespaces. It is safe for concurrent use.
type Store struct {
	pool       *identity.Pool
	namespaces []string
	log        logr.Logger
	changed    func(namespace, name string)
	cache      *contentCache
	stop       context.Context
	limit      int // of watches that are not the operator's own

	mu      sync.Mutex
	views   map[scope]*view
	users   map[any]scope // whom a watch serves by name; each has one
	uses    uint64
	flights map[types.NamespacedName]*flight
	writing map[types.NamespacedName]int // part Secrets whose index is not written yet
}

// New returns a store; its watches run until ctx ends. namespaces are those
// that the operator watches (empty: all). changed is called for a release whose
// Secrets were created, changed or deleted by somebody other than this store,
// as far as a watch stands; never while a lock is held. It must return soon,
// may be called more than once for a change, and may be nil.
func New(ctx context.Context, pool *identity.Pool, namespaces []string, log logr.Logger, changed func(namespace, name string)) *Store {
	if slices.Contains(namespaces, "") {
		namespaces = nil
	}
	return &Store{
		pool: pool, namespaces: slices.Clone(namespaces), log: log, changed: changed, stop: ctx, limit: maxViews,
		cache: newContentCache(cacheBytes, cacheCount), views: map[scope]*view{}, users: map[any]scope{},
		flights: map[types.NamespacedName]*flight{}, writing: map[types.NamespacedName]int{},
	}
}

// Options say how a driver's releases are labeled.
type Options struct {
	// Owner is the value of v1alpha1.LabelOwner on releases that are created; empty for none.
	Owner string
	// Holder is the value of v1alpha1.LabelHolder on releases that are being
	// worked on (pending-* and uninstalling); it is taken off all others. Empty for none.
	Holder string
	// User is who the driver serves: a comparable value. The watch that it needs lasts until
	// Forget, or until the same user comes with another identity or namespace. Nil: nobody in particular.
	User any
}

// Driver returns the storage of one namespace's releases as one identity; its
// requests end with ctx. It waits until the watch of the namespace is in sync or
// known to be impossible, for 10 seconds at most: without a watch the driver
// lists. The only errors are those of the identity's clients and of ctx.
func (s *Store) Driver(ctx context.Context, id identity.Identity, namespace string, o Options) (*Driver, error) {
	if namespace == "" {
		return nil, errors.New("storage of releases: no namespace given")
	}
	clients, err := s.pool.For(id)
	if err != nil {
		return nil, err
	}
	v := s.view(clients, namespace, o.User) //nolint:contextcheck // a watch outlives the call that starts it
	timer := time.NewTimer(settleTimeout)
	defer timer.Stop()
	select {
	case <-v.settled:
	case <-timer.C:
	case <-s.stop.Done():
	case <-ctx.Done():
		return nil, fmt.Errorf("storage of releases in namespace %s: %w", namespace, ctx.Err())
	}
	return &Driver{store: s, ctx: ctx, clients: clients, view: v, namespace: namespace, options: o, listed: map[string]bool{}}, nil
}

// Forget says that the user is gone: a watch that serves nobody else ends.
func (s *Store) Forget(user any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(user)
}

// leave ends the user's use of a watch. The caller holds the lock.
func (s *Store) leave(user any) {
	at, ok := s.users[user]
	if !ok {
		return
	}
	delete(s.users, user)
	v := s.views[at]
	if v == nil {
		return
	}
	if v.users--; v.users == 0 && !v.kept {
		s.end(v)
	}
}

// view returns the watch that serves the namespace, and starts it if need be
// and there is room; else one that tells nothing, so that the driver lists.
func (s *Store) view(clients *identity.Clients, namespace string, user any) *view {
	at, own := s.scope(clients.Identity, namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses++
	if before, ok := s.users[user]; ok && before != at {
		s.leave(user)
	}
	v, ok := s.views[at]
	if !ok {
		if !own && !s.room() {
			return unwatched(s, at)
		}
		v = newView(s, clients, at)
		v.kept = own
		s.views[at] = v
	}
	if _, served := s.users[user]; user != nil && !served {
		s.users[user] = at
		v.users++
	}
	v.used = s.uses
	return v
}

// scope is what is watched for a namespace, and whether it is one of the operator's own watches.
func (s *Store) scope(id identity.Identity, namespace string) (scope, bool) {
	switch {
	case !id.IsOperator():
		return scope{id, namespace}, false
	case len(s.namespaces) == 0:
		return scope{id, ""}, true
	default:
		return scope{id, namespace}, slices.Contains(s.namespaces, namespace)
	}
}

// room makes room for one more watch, and tells whether there is. The caller holds the lock.
func (s *Store) room() bool {
	var oldest *view
	n := 0
	for _, v := range s.views {
		if v.kept {
			continue
		}
		n++
		if v.users == 0 && (oldest == nil || v.used < oldest.used) {
			oldest = v
		}
	}
	if n < s.limit {
		return true
	}
	if oldest != nil {
		s.end(oldest)
	}
	return oldest != nil
}

// end ends a watch. The caller holds the lock.
func (s *Store) end(v *view) {
	v.stopped = true
	v.cancel()
	delete(s.views, v.scope)
}

// change is one thing that a watch told.
type change struct {
	key     types.NamespacedName
	release types.NamespacedName
	uid     types.UID
	version string
	gone    bool
}

// flight is what is known of requests of this store on one Secret while they
// are under way: a watch can tell of a write before its response is there.
type flight struct {
	requests int
	changes  []change
	versions map[string]bool    // that these requests made
	removed  map[types.UID]bool // by these requests
}

func (f *flight) own(c change) bool {
	if c.gone {
		return f.removed[c.uid]
	}
	return f.versions[c.version]
}

// gone tells whether a watch has already told of the Secret's end.
func (f *flight) gone(uid types.UID) bool {
	return slices.ContainsFunc(f.changes, func(c change) bool { return c.gone && c.uid == uid })
}

// begin announces a request on a Secret.
func (s *Store) begin(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flights[key]
	if f == nil {
		f = &flight{versions: map[string]bool{}, removed: map[types.UID]bool{}}
		s.flights[key] = f
	}
	f.requests++
}

// finish ends a request: it wrote the object, or removed the one with the UID,
// or failed. All watches that cover it know at once; via is the driver's own.
func (s *Store) finish(key types.NamespacedName, via *view, wrote *object, removed types.UID) {
	s.mu.Lock()
	f := s.flights[key]
	f.requests--
	if wrote != nil {
		f.versions[wrote.version] = true
	}
	if removed != "" {
		f.removed[removed] = true
	}
	for _, v := range s.covering(key.Namespace, via) {
		if wrote != nil && !f.gone(wrote.uid) {
			v.wrote(wrote)
		}
		if removed != "" {
			v.removed(key, removed)
		}
	}
	var foreign []types.NamespacedName
	if f.requests == 0 {
		delete(s.flights, key)
		for _, c := range f.changes {
			if !f.own(c) {
				foreign = append(foreign, c.release)
			}
		}
	}
	s.mu.Unlock()
	s.notify(foreign)
}

// covering returns the views that hold the namespace, and the given one. The caller holds the lock.
func (s *Store) covering(namespace string, via *view) []*view {
	views := []*view{via}
	for at, v := range s.views {
		if v != via && (at.namespace == "" || at.namespace == namespace) {
			views = append(views, v)
		}
	}
	return views
}

// foreign returns the releases whose change is nobody's in flight; the others
// are judged when the flight ends. The caller holds the lock.
func (s *Store) foreign(changes []change) []types.NamespacedName {
	var releases []types.NamespacedName
	for _, c := range changes {
		if f := s.flights[c.key]; f != nil {
			f.changes = append(f.changes, c)
			continue
		}
		releases = append(releases, c.release)
	}
	return releases
}

// notify calls changed once for each release.
func (s *Store) notify(releases []types.NamespacedName) {
	if s.changed == nil {
		return
	}
	told := map[types.NamespacedName]bool{}
	for _, r := range releases {
		if r.Name != "" && !told[r] {
			told[r] = true
			s.changed(r.Namespace, r.Name)
		}
	}
}
