// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// bodies keeps what was read of objects that are watched by metadata alone,
// each read once for each of its versions.
type bodies struct {
	mu     sync.Mutex
	byName map[string]*body
}

// body is what was read of one object.
type body struct {
	mu      sync.Mutex
	version string
	keys    []string
	// object is nil where only the keys were asked for.
	object *unstructured.Unstructured
}

func newBodies() *bodies { return &bodies{byName: map[string]*body{}} }

func (b *bodies) of(name string) *body {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept, ok := b.byName[name]
	if !ok {
		kept = &body{}
		b.byName[name] = kept
	}
	return kept
}

func (b *bodies) drop(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byName, name)
}

// current tells whether what is kept is at least as new as the version. The caller holds the lock.
func (b *body) current(version string) bool {
	if b.version == version {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(b.version, version)
	return err == nil && order > 0
}

// keys returns the names of the object's keys in that version, or a newer one.
func (w *watch) keys(ctx context.Context, name, version string) ([]string, error) {
	b := w.bodies.of(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current(version) {
		return b.keys, nil
	}
	obj, err := w.get(ctx, name)
	if err != nil {
		return nil, err
	}
	b.version, b.keys, b.object = obj.GetResourceVersion(), keysOf(obj), nil
	return b.keys, nil
}

// object returns the ConfigMap or Secret in that version, or a newer one.
func (w *watch) object(ctx context.Context, name, version string) (*unstructured.Unstructured, error) {
	b := w.bodies.of(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.object != nil && b.current(version) {
		return b.object, nil
	}
	obj, err := w.get(ctx, name)
	if err != nil {
		return nil, err
	}
	b.version, b.keys, b.object = obj.GetResourceVersion(), keysOf(obj), obj
	return obj, nil
}

// get reads the object itself.
func (w *watch) get(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	return get(ctx, w.clients.Dynamic.Resource(w.mapping.Resource).Namespace(w.key.namespace), w.key, w.mapping.Resource, name)
}

// keysOf are the names of a ConfigMap's or Secret's keys, in order.
func keysOf(obj *unstructured.Unstructured) []string {
	names := map[string]bool{}
	for _, field := range []string{"data", "binaryData"} {
		if values, ok := obj.Object[field].(map[string]any); ok {
			for key := range values {
				names[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
