// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/chartgate/chartgate/internal/identity"
)

// selector picks releases and parts of releases.
const selector = labelOwner + " in (" + ownerHelm + "," + ownerChartgate + ")"

var secrets = corev1.SchemeGroupVersion.WithResource("secrets")

// newView starts a watch.
func newView(s *Store, clients *identity.Clients, at scope) *view {
	ctx, cancel := context.WithCancel(s.stop)
	v := emptyView(s, at)
	v.cancel = cancel
	go v.run(ctx, clients)
	return v
}

// unwatched returns a view without a watch: nothing in it is believed.
func unwatched(s *Store, at scope) *view {
	v := emptyView(s, at)
	v.cancel, v.stopped = func() {}, true
	v.settle()
	return v
}

func emptyView(s *Store, at scope) *view {
	return &view{
		store: s, scope: at, settled: make(chan struct{}),
		objects:  map[types.NamespacedName]entry{},
		releases: map[types.NamespacedName]map[types.NamespacedName]bool{},
		gone:     map[types.UID]tombstone{},
	}
}

// run watches until ctx ends. A watch that fails is tried again: after a
// second at first, every half minute at last.
func (v *view) run(ctx context.Context, clients *identity.Clients) {
	client := clients.Metadata.Resource(secrets).Namespace(v.scope.namespace)
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			if o.ResourceVersion == "0" {
				o.ResourceVersion = "" // any state will not do: it has to include what was written before
			}
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return client.Watch(ctx, o)
		},
	}, clients.Metadata)
	where := v.scope.namespace
	if where == "" {
		where = "all namespaces"
	}
	log := v.store.log.WithValues("namespace", where, "identity", v.scope.id.String())
	ctx = logr.NewContext(ctx, log)
	reflector := cache.NewReflectorWithOptions(source, &metav1.PartialObjectMetadata{}, v, cache.ReflectorOptions{
		Name: "releases in " + where, TypeDescription: "release Secrets",
		Backoff: &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 5 * time.Second},
	})
	first := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 30 * time.Second}
	delay := first
	for ctx.Err() == nil {
		began := time.Now()
		err := reflector.ListAndWatchWithContext(ctx)
		if time.Since(began) > time.Minute {
			delay = first
		}
		if err != nil && ctx.Err() == nil {
			v.fail(err)
			log.V(1).Info("Release Secrets cannot be watched; they are listed instead", "error", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay.Step()):
		}
	}
}

// fail notes that the watch ended with an error. What it told before is still
// believed, as in any informer, unless the API server refuses to tell more.
func (v *view) fail(err error) {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		v.refused = true
	}
	v.settle()
}

// Transformer implements cache.TransformingStore: what is not kept does not
// take memory while a list is under way.
func (v *view) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		if m, ok := obj.(metav1.Object); ok {
			m.SetManagedFields(nil)
			m.SetAnnotations(nil)
		}
		return obj, nil
	}
}
