// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package dependents

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/chartgate/chartgate/internal/identity"
)

// selector picks what Helm released.
const selector = "app.kubernetes.io/managed-by=Helm"

const (
	// maxInformers bounds the watches of impersonated identities, which are one for
	// each identity, kind and namespace. Past it objects are read instead.
	maxInformers = 8192
	// settleTimeout bounds how long a release waits for a watch of its objects.
	// Past it the release goes on, and the objects are read instead.
	settleTimeout = 10 * time.Second
	// firstRetry is the time after which a watch that was refused is tried again.
	// It doubles each time, up to lastRetry, until the watch has stood for steady.
	firstRetry = 15 * time.Second
	lastRetry  = 5 * time.Minute
	steady     = time.Minute
)

// informerKey tells watches apart.
type informerKey struct {
	id        identity.Identity
	resource  schema.GroupVersionResource
	namespace string
}

// informer is one watch of one kind. While it is refused, its objects are read.
type informer struct {
	tracker *Tracker
	key     informerKey
	kind    schema.GroupKind
	clients *identity.Clients
	cancel  context.CancelFunc

	once    sync.Once
	settled chan struct{} // closed when the watch stands, or is known not to

	mu     sync.Mutex
	shared cache.SharedIndexInformer // nil unless its store can be believed
}

// scopes are the namespaces in which the object's kind is watched: "" is all of them. A
// ServiceAccount's rights may end at a namespace, so for it that is the object's own.
func (t *Tracker) scopes(id identity.Identity, ref Ref) []string {
	switch {
	case ref.Mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		return []string{metav1.NamespaceAll}
	case !id.IsOperator():
		return []string{ref.Namespace}
	case len(t.namespaces) == 0:
		return []string{metav1.NamespaceAll}
	default:
		return t.namespaces
	}
}

// informer returns the watch that covers the object, if there is one. The caller holds the lock.
func (t *Tracker) informer(id identity.Identity, ref Ref) *informer {
	if inf, ok := t.informers[informerKey{id, ref.Mapping.Resource, metav1.NamespaceAll}]; ok {
		return inf
	}
	return t.informers[informerKey{id, ref.Mapping.Resource, ref.Namespace}]
}

// start makes sure that the object's kind is watched for the owner, as far as there is room.
func (t *Tracker) start(clients *identity.Clients, owner Owner, ref Ref) []*informer {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.state(owner)
	var all []*informer
	for _, ns := range t.scopes(clients.Identity, ref) {
		key := informerKey{clients.Identity, ref.Mapping.Resource, ns}
		inf, ok := t.informers[key]
		if !ok {
			if !clients.Identity.IsOperator() && len(t.informers) >= t.limit {
				continue
			}
			inf = &informer{
				tracker: t, key: key, kind: ref.Mapping.GroupVersionKind.GroupKind(), clients: clients, settled: make(chan struct{}),
			}
			var ctx context.Context
			ctx, inf.cancel = context.WithCancel(t.stop)
			t.informers[key] = inf
			go inf.run(ctx)
		}
		if state.kinds == nil {
			state.kinds = map[informerKey]bool{}
		}
		state.kinds[key] = true
		all = append(all, inf)
	}
	return all
}

// run keeps the watch up: when it is refused, it is tried anew after a while,
// later each time, with an empty store, so that nothing old is believed.
func (i *informer) run(ctx context.Context) {
	first := i.tracker.retry
	for delay := first; ctx.Err() == nil; delay = min(2*delay, lastRetry) {
		began := time.Now()
		if err := i.attempt(ctx); err != nil {
			i.tracker.log.V(1).Info("Kind can't be watched; its objects are read instead", "kind", i.kind.String(),
				"namespace", i.key.namespace, "identity", i.key.id.String(), "error", err.Error())
		}
		if time.Since(began) > steady {
			delay = first
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

// attempt watches until ctx ends or the watch is refused.
func (i *informer) attempt(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer i.enter(nil)
	refusals := make(chan error, 1)
	shared, err := i.newShared(refusals)
	if err != nil {
		return err
	}
	go shared.RunWithContext(ctx)
	select {
	case <-shared.HasSyncedChecker().Done():
		i.enter(shared)
	case err := <-refusals:
		return err
	case <-ctx.Done():
		return nil
	}
	select {
	case err := <-refusals:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (i *informer) newShared(refusals chan<- error) (cache.SharedIndexInformer, error) {
	tweak := func(o *metav1.ListOptions) { o.LabelSelector = selector }
	var shared cache.SharedIndexInformer
	if metadataOnly[i.kind] {
		shared = metadatainformer.NewFilteredMetadataInformer(i.clients.Metadata, i.key.resource, i.key.namespace, 0, cache.Indexers{}, tweak).Informer()
	} else {
		shared = dynamicinformer.NewFilteredDynamicInformer(i.clients.Dynamic, i.key.resource, i.key.namespace, 0, cache.Indexers{}, tweak).Informer()
	}
	if err := shared.SetTransform(trim); err != nil {
		return nil, fmt.Errorf("watch of %s: %w", i.kind, err)
	}
	if err := shared.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !isRefusal(err) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		select {
		case refusals <- err:
		default:
		}
	}); err != nil {
		return nil, fmt.Errorf("watch of %s: %w", i.kind, err)
	}
	if _, err := shared.AddEventHandler(i.tracker.handler(i.kind)); err != nil {
		return nil, fmt.Errorf("watch of %s: %w", i.kind, err)
	}
	return shared, nil
}

// isRefusal tells whether trying again at once is of no use.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// enter notes that the watch stands, or, with nil, that it doesn't.
func (i *informer) enter(shared cache.SharedIndexInformer) {
	i.mu.Lock()
	i.shared = shared
	i.mu.Unlock()
	i.once.Do(func() { close(i.settled) })
}

// handler wakes owners.
func (t *Tracker) handler(gk schema.GroupKind) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { t.changed(gk, nil, obj) },
		UpdateFunc: func(before, after any) {
			t.changed(gk, before, after)
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if o, ok := obj.(metav1.Object); ok {
				if owner, ok := findOwner(o); ok {
					t.wake(owner)
				}
			}
		},
	}
}

// changed wakes the owner of an object, and its former owner, unless the object
// is in the state that was verified and is as ready as before.
func (t *Tracker) changed(gk schema.GroupKind, before, after any) {
	now, ok := after.(metav1.Object)
	if !ok {
		return
	}
	was, _ := before.(metav1.Object)
	if was != nil {
		if former, ok := findOwner(was); ok {
			if holder, still := findOwner(now); !still || holder != former {
				t.wake(former)
			}
		}
	}
	owner, ok := findOwner(now)
	if !ok {
		return
	}
	current := fingerprintOf(now)
	asVerified := (was != nil && fingerprintOf(was) == current) ||
		t.expected(owner, objectKey{gk, now.GetNamespace(), now.GetName()}, current)
	if asVerified && tellsSame(was, now) {
		return
	}
	t.wake(owner)
}

// tellsSame tells whether an update changed nothing that the owner's status
// tells of: readiness, and when a CronJob last did its work. A new object counts
// as changed where it can be unready.
func tellsSame(before, after metav1.Object) bool {
	now, ok := after.(*unstructured.Unstructured)
	if !ok {
		return true
	}
	was, ok := before.(*unstructured.Unstructured)
	return ok && objectReadiness(was) == objectReadiness(now) && lastSuccess(was) == lastSuccess(now)
}

func lastSuccess(obj *unstructured.Unstructured) string {
	at, _, _ := unstructured.NestedString(obj.Object, "status", "lastSuccessfulTime")
	return at
}

// settle waits until the watch stands or cannot stand.
func (i *informer) settle(ctx context.Context) error {
	timer := time.NewTimer(settleTimeout)
	defer timer.Stop()
	select {
	case <-i.settled:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch returns what is watched; nil where there is nothing to believe.
func (i *informer) watch() cache.SharedIndexInformer {
	if i == nil {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.shared
}

// still tells whether the object is as it was verified, as far as the watch knows.
func (i *informer) still(ref Ref, v verification) bool {
	shared := i.watch()
	if shared == nil {
		return false
	}
	obj := cached(shared, ref)
	switch {
	case v.absent:
		return obj == nil
	case obj == nil:
		return older(shared.LastSyncResourceVersion(), v.version)
	default:
		return fingerprintOf(obj) == v.print || older(obj.GetResourceVersion(), v.version)
	}
}

// cached returns the object as the watch has it; nil where there is none.
func cached(shared cache.SharedIndexInformer, ref Ref) metav1.Object {
	key := ref.Name
	if ref.Namespace != "" {
		key = ref.Namespace + "/" + ref.Name
	}
	obj, ok, err := shared.GetStore().GetByKey(key)
	if err != nil || !ok {
		return nil
	}
	o, _ := obj.(metav1.Object)
	return o
}

// read reads the object itself; nil where it does not exist.
func (t *Tracker) read(ctx context.Context, id identity.Identity, ref Ref) (*unstructured.Unstructured, error) {
	clients, err := t.pool.For(id)
	if err != nil {
		return nil, err
	}
	var r dynamic.ResourceInterface = clients.Dynamic.Resource(ref.Mapping.Resource)
	if ref.Mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		r = clients.Dynamic.Resource(ref.Mapping.Resource).Namespace(ref.Namespace)
	}
	live, err := r.Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return live, err
}
