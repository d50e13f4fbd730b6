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

// settleTimeout bounds how long a release waits for a watch of its objects.
// Past it the release goes on, and the objects are read instead.
const settleTimeout = 10 * time.Second

// informerKey tells watches apart.
type informerKey struct {
	id        identity.Identity
	resource  schema.GroupVersionResource
	namespace string
}

// informer is one watch of one kind.
type informer struct {
	shared cache.SharedIndexInformer
	cancel context.CancelFunc

	once    sync.Once
	settled chan struct{}

	mu  sync.Mutex
	err error
}

// scopes are the namespaces in which a kind is watched: "" is all of them.
func (t *Tracker) scopes(mapping *meta.RESTMapping) []string {
	if len(t.namespaces) == 0 || mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return []string{metav1.NamespaceAll}
	}
	return t.namespaces
}

// informer returns the watch that covers the object, if there is one. The caller holds the lock.
func (t *Tracker) informer(id identity.Identity, ref Ref) *informer {
	if inf, ok := t.informers[informerKey{id, ref.Mapping.Resource, metav1.NamespaceAll}]; ok {
		return inf
	}
	return t.informers[informerKey{id, ref.Mapping.Resource, ref.Namespace}]
}

// start makes sure that the kind is watched.
func (t *Tracker) start(id identity.Identity, mapping *meta.RESTMapping) ([]*informer, error) {
	clients, err := t.pool.For(id)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*informer
	for _, ns := range t.scopes(mapping) {
		key := informerKey{id, mapping.Resource, ns}
		inf, ok := t.informers[key]
		if !ok {
			if inf, err = t.newInformer(clients, mapping, ns); err != nil {
				return nil, err
			}
			t.informers[key] = inf
		}
		all = append(all, inf)
	}
	return all, nil
}

func (t *Tracker) newInformer(clients *identity.Clients, mapping *meta.RESTMapping, namespace string) (*informer, error) {
	tweak := func(o *metav1.ListOptions) { o.LabelSelector = selector }
	gk := mapping.GroupVersionKind.GroupKind()
	var shared cache.SharedIndexInformer
	if metadataOnly[gk] {
		shared = metadatainformer.NewFilteredMetadataInformer(clients.Metadata, mapping.Resource, namespace, 0, cache.Indexers{}, tweak).Informer()
	} else {
		shared = dynamicinformer.NewFilteredDynamicInformer(clients.Dynamic, mapping.Resource, namespace, 0, cache.Indexers{}, tweak).Informer()
	}
	ctx, cancel := context.WithCancel(t.stop)
	inf := &informer{shared: shared, cancel: cancel, settled: make(chan struct{})}
	if err := shared.SetTransform(trim); err != nil {
		cancel()
		return nil, fmt.Errorf("watch of %s: %w", gk, err)
	}
	if err := shared.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		inf.fail(err)
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			t.log.V(1).Info("Kind cannot be watched; its objects are read instead", "kind", gk.String(), "identity", clients.Identity.String(), "error", err.Error())
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}); err != nil {
		cancel()
		return nil, fmt.Errorf("watch of %s: %w", gk, err)
	}
	if _, err := shared.AddEventHandler(t.handler(gk)); err != nil {
		cancel()
		return nil, fmt.Errorf("watch of %s: %w", gk, err)
	}
	go shared.RunWithContext(ctx)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), shared.HasSynced) {
			inf.succeed()
		}
	}()
	return inf, nil
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

func (i *informer) fail(err error) {
	i.mu.Lock()
	i.err = err
	i.mu.Unlock()
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		i.once.Do(func() { close(i.settled) })
	}
}

func (i *informer) succeed() {
	i.mu.Lock()
	i.err = nil
	i.mu.Unlock()
	i.once.Do(func() { close(i.settled) })
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

// watching tells whether the cache can be believed.
func (i *informer) watching() bool {
	if !i.shared.HasSynced() {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return !apierrors.IsForbidden(i.err)
}

// still tells whether the object is as it was verified, as far as the watch knows.
func (i *informer) still(ref Ref, v verification) bool {
	if i == nil || !i.watching() {
		return false
	}
	obj := i.get(ref.Namespace, ref.Name)
	switch {
	case v.absent:
		return obj == nil
	case obj == nil:
		return older(i.shared.LastSyncResourceVersion(), v.version)
	default:
		return fingerprintOf(obj) == v.print || older(obj.GetResourceVersion(), v.version)
	}
}

// get returns the cached object; nil where there is none.
func (i *informer) get(namespace, name string) metav1.Object {
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	obj, ok, err := i.shared.GetStore().GetByKey(key)
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
