// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/identity"
	"github.com/chartgate/chartgate/internal/release/store"
)

// maxChecks bounds how many stored releases are remembered as checked.
const maxChecks = 16384

// Engine makes sessions. It is safe for concurrent use.
type Engine struct {
	pool    *identity.Pool
	tracker *dependents.Tracker
	store   *store.Store
	holder  string
	wake    func(dependents.Owner)

	mu     sync.Mutex
	owners map[types.NamespacedName]dependents.Owner // by release
	checks *lru.Cache                                // check by UID of the release Secret
	wrote  *lru.Cache                                // writtenKey of what this process stored
}

// writtenKey is a payload that was stored for a release. It speaks for a
// revision where the status cannot, since an older CRD prunes its history.
type writtenKey struct {
	namespace, name, payload string
}

// check is what was found out about a stored release, which costs decoding it,
// and perhaps rendering its chart.
type check struct {
	version  string // resourceVersion of the Secret
	payload  string
	compared string // digest of the change whose rendering was compared with it
	same     bool
}

var _ helmclient.ActionClientGetter = (*Engine)(nil)

// Options of an engine. All are required but Wake.
type Options struct {
	// Pool of clients to act with.
	Pool *identity.Pool
	// Tracker watches what is released.
	Tracker *dependents.Tracker
	// Store holds the releases. Its changes are to be told to Changed.
	Store *store.Store
	// Holder names this operator instance on releases that it is working on.
	Holder string
	// Wake is called for the owner of a release that somebody else changed.
	Wake func(dependents.Owner)
}

// NewEngine returns an engine.
func NewEngine(o Options) *Engine {
	return &Engine{
		pool: o.Pool, tracker: o.Tracker, store: o.Store, holder: o.Holder, wake: o.Wake,
		owners: map[types.NamespacedName]dependents.Owner{}, checks: lru.New(maxChecks), wrote: lru.New(maxChecks),
	}
}

// Changed wakes the owner of a stored release that somebody else changed.
func (e *Engine) Changed(namespace, name string) {
	e.mu.Lock()
	owner, ok := e.owners[types.NamespacedName{Namespace: namespace, Name: name}]
	e.mu.Unlock()
	if ok && e.wake != nil {
		e.wake(owner)
	}
}

// Forget drops what is kept of the release of an owner that is gone.
func (e *Engine) Forget(owner dependents.Owner) {
	e.store.Forget(owner)
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.owners, func(_ types.NamespacedName, of dependents.Owner) bool { return of == owner })
}

// driver returns the storage of the owner's release.
func (e *Engine) driver(ctx context.Context, owner dependents.Owner, id identity.Identity, namespace string) (*store.Driver, error) {
	return e.store.Driver(ctx, id, namespace, store.Options{Owner: OwnerLabel(owner, namespace), Holder: e.holder, User: owner})
}

// ReleaseName returns the name of the owner's release in the namespace: that
// of the release it has, else the first that is free. Names of releases that
// belong to other resources are passed over.
func (e *Engine) ReleaseName(ctx context.Context, owner dependents.Owner, id identity.Identity, namespace string) (string, error) {
	releases, err := e.driver(ctx, owner, id, namespace)
	if err != nil {
		return "", err
	}
	free := ""
	for _, name := range Names(owner, namespace) {
		records, err := releases.Records(name)
		if err != nil {
			return "", fmt.Errorf("release %s/%s: %w", namespace, name, err)
		}
		switch ownerOf(records) {
		case OwnerLabel(owner, namespace):
			return name, nil
		case "":
			if free == "" {
				free = name // free, or made without Chartgate: adopted or refused by name when it comes to it
			}
		}
	}
	return free, ctx.Err()
}

// ownerOf returns the owner that the labels of a release's revisions name:
// Helm before 3.13 doesn't copy labels to the revisions it makes.
func ownerOf(records []store.Record) string {
	for _, r := range slices.Backward(records) {
		if owner := r.Labels[v1alpha1.LabelOwner]; owner != "" {
			return owner
		}
	}
	return ""
}

// Session returns a session that brings about the change. Its requests end with ctx.
func (e *Engine) Session(ctx context.Context, change Change) (*Session, error) {
	clients, err := e.pool.For(change.Identity)
	if err != nil {
		return nil, err
	}
	releases, err := e.driver(ctx, change.owner(), change.Identity, change.Namespace)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.owners[types.NamespacedName{Namespace: change.Namespace, Name: change.Name}] = change.owner()
	e.mu.Unlock()
	return &Session{ctx: ctx, change: change, clients: clients, engine: e, store: releases}, nil
}

func (e *Engine) check(uid types.UID, version string) (check, bool) {
	kept, _ := e.checks.Get(uid)
	c, ok := kept.(check)
	return c, ok && c.version == version
}

func (e *Engine) setCheck(uid types.UID, c check) { e.checks.Add(uid, c) }

type sessionKey struct{}

// WithSession returns a context in which ActionClientFor gives out the session.
func WithSession(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// ActionClientFor implements helm-operator-plugins' ActionClientGetter: it
// gives out the context's session.
func (e *Engine) ActionClientFor(ctx context.Context, obj client.Object) (helmclient.ActionInterface, error) {
	s, ok := ctx.Value(sessionKey{}).(*Session)
	if !ok {
		return nil, fmt.Errorf("%s/%s: %w", obj.GetNamespace(), obj.GetName(), errors.New("no session in the context"))
	}
	return s, nil
}
