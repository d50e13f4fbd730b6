// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/identity"
)

// watch is one watch of one kind in one namespace.
type watch struct {
	key     watchKey
	mapping *meta.RESTMapping
	clients *identity.Clients
	inputs  *Inputs
	ctx     context.Context
	cancel  context.CancelFunc
	bodies  *bodies
	// changed is called for an object that changed: before and after, either may be nil.
	changed func(before, after metav1.Object)
	// onChange, where it is set, is called when the watch is established or refused.
	onChange func()

	// settled is closed when the watch is established, refused, or has met a fault.
	settled chan struct{}
	once    sync.Once

	mu    sync.Mutex
	state watchState
	store cache.Indexer
	// err is why the watch was refused, or the last fault while it is pending.
	err error
	// waiting are the owners that were told to wait, or read without the watch.
	waiting map[dependents.Owner]bool
}

// watchState is how far a watch is.
type watchState int

const (
	// pending: it is being established.
	pending watchState = iota
	// synced: its store can be believed.
	synced
	// refused: it can't be established. It is tried again after a while.
	refused
)

// metadataOnly tells whether only the metadata of the kind is watched.
func metadataOnly(key watchKey) bool {
	return key.kind.Group == "" && (key.kind.Kind == "ConfigMap" || key.kind.Kind == "Secret")
}

// newWatch returns a watch that is not started yet. It ends with the inputs, or by its cancel.
func (i *Inputs) newWatch(key watchKey, mapping *meta.RESTMapping, clients *identity.Clients) *watch {
	w := &watch{
		key: key, mapping: mapping, clients: clients, inputs: i,
		bodies: newBodies(), settled: make(chan struct{}), waiting: map[dependents.Owner]bool{},
	}
	w.ctx, w.cancel = context.WithCancel(i.ctx)
	w.changed = w.wakeReferrers
	return w
}

func (w *watch) start() { go w.run(w.ctx) }

// run keeps the watch up: when it is refused, it is tried anew after a while,
// later each time, with an empty store, so that nothing old is believed.
func (w *watch) run(ctx context.Context) {
	first := w.inputs.retry
	for delay := first; ctx.Err() == nil; delay = min(2*delay, maxRetries*first) {
		established, err := w.attempt(ctx)
		if established {
			delay = first
		}
		if err != nil {
			w.enter(refused, nil, err)
			w.inputs.log.V(1).Info("Gate inputs can't be watched; they are read instead", "kind", w.key.kind.Kind,
				"namespace", w.key.namespace, "identity", w.key.id.String(), "error", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

// attempt runs an informer until ctx ends or the watch is refused, and tells whether it was established.
func (w *watch) attempt(ctx context.Context) (established bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	refusals := make(chan error, 1)
	inf, err := w.newInformer(refusals)
	if err != nil {
		return false, err
	}
	go inf.RunWithContext(ctx)
	select {
	case <-inf.HasSyncedChecker().Done():
		w.enter(synced, inf.GetIndexer(), nil)
	case err := <-refusals:
		return false, err
	case <-ctx.Done():
		return false, nil
	}
	select {
	case err := <-refusals:
		return true, err
	case <-ctx.Done():
		return true, nil
	}
}

func (w *watch) newInformer(refusals chan<- error) (cache.SharedIndexInformer, error) {
	var inf cache.SharedIndexInformer
	if metadataOnly(w.key) {
		inf = metadatainformer.NewFilteredMetadataInformer(w.clients.Metadata, w.mapping.Resource, w.key.namespace, 0, cache.Indexers{}, nil).Informer()
	} else {
		inf = dynamicinformer.NewFilteredDynamicInformer(w.clients.Dynamic, w.mapping.Resource, w.key.namespace, 0, w.indexers(), nil).Informer()
	}
	if err := inf.SetTransform(trim); err != nil {
		return nil, fmt.Errorf("watch of %s: %w", w.key.kind, err)
	}
	if err := inf.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !isRefusal(err) {
			w.note(err)
			cache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		select {
		case refusals <- err:
		default:
		}
	}); err != nil {
		return nil, fmt.Errorf("watch of %s: %w", w.key.kind, err)
	}
	if _, err := inf.AddEventHandler(w.handler()); err != nil {
		return nil, fmt.Errorf("watch of %s: %w", w.key.kind, err)
	}
	return inf, nil
}

// isRefusal tells whether trying again at once is of no use.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// handler hands on what changes. What the store begins with changes nothing:
// whoever read before that is waiting, and woken then.
func (w *watch) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if after, ok := obj.(metav1.Object); ok && !initial {
				w.changed(nil, after)
			}
		},
		UpdateFunc: func(old, obj any) {
			before, ok1 := old.(metav1.Object)
			after, ok2 := obj.(metav1.Object)
			if ok1 && ok2 && before.GetResourceVersion() != after.GetResourceVersion() {
				w.changed(before, after)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if before, ok := obj.(metav1.Object); ok {
				w.changed(before, nil)
			}
		},
	}
}

func (w *watch) wakeReferrers(before, after metav1.Object) {
	var targets []target
	for _, obj := range []metav1.Object{before, after} {
		if obj == nil {
			continue
		}
		targets = append(targets, target{watch: w.key, name: obj.GetName()})
		if kind, name, ok := approved(obj); ok && w.key.kind == releaseApprovals {
			targets = append(targets, target{watch: w.key, kind: kind, name: name})
		}
	}
	w.inputs.changed(targets...)
}

// note keeps a fault that may pass. Nobody waits any longer for a watch that has one:
// who reads is told, and woken later.
func (w *watch) note(err error) {
	w.mu.Lock()
	if w.state == pending {
		w.err = err
	}
	w.mu.Unlock()
	w.once.Do(func() { close(w.settled) })
}

// enter changes the state, lets reads go on, and wakes the owners that waited for it.
func (w *watch) enter(state watchState, store cache.Indexer, err error) {
	w.mu.Lock()
	moved := w.state != state
	w.state, w.store, w.err = state, store, err
	var owners []dependents.Owner
	if moved {
		owners = slices.Collect(maps.Keys(w.waiting))
	}
	if state == synced {
		clear(w.waiting)
	}
	w.mu.Unlock()
	w.once.Do(func() { close(w.settled) })
	w.inputs.wakeAll(owners)
	if moved && w.onChange != nil {
		w.onChange()
	}
}

// wait waits until the watch is established or refused, and returns its store; nil
// where it is refused. The owner is woken when that changes.
func (w *watch) wait(ctx context.Context, owner *dependents.Owner) (cache.Indexer, error) {
	timer := time.NewTimer(settleTimeout)
	defer timer.Stop()
	select {
	case <-w.settled:
	case <-timer.C:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != synced && owner != nil {
		w.waiting[*owner] = true
	}
	switch {
	case w.state != pending:
		return w.store, nil
	case w.err != nil:
		return nil, fmt.Errorf("%w: %w", gate.ErrNotSynced, w.err)
	default:
		return nil, gate.ErrNotSynced
	}
}

// refusal is why the watch was refused.
func (w *watch) refusal() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
