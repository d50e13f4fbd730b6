// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/chartgate/chartgate/internal/identity"
)

// scope tells watches apart.
type scope struct {
	id        identity.Identity
	namespace string // empty for all
}

// entry is a Secret in a view.
type entry struct {
	*object
	// own is true for what this store wrote until the watch has told of it.
	own bool
}

// tombstone stands for a Secret that this store deleted until the watch has told of it.
type tombstone struct {
	release types.NamespacedName
	version string // the last one known
}

// view is what one watch says of the Secrets, corrected by what this store
// wrote since. Everything below the lock's comment is guarded by the Store's lock.
type view struct {
	store   *Store
	scope   scope
	cancel  context.CancelFunc
	settled chan struct{} // closed when the watch is in sync or has failed

	// Guarded by store.mu.
	kept     bool // the operator's own: never evicted
	used     uint64
	users    int // whom it serves by name
	stopped  bool
	known    bool // settled is closed
	synced   bool
	refused  bool // the API server does not let the identity watch
	objects  map[types.NamespacedName]entry
	releases map[types.NamespacedName]map[types.NamespacedName]bool // Secrets of a release
	gone     map[types.UID]tombstone
}

// usable tells whether the view can be believed. The caller holds the lock.
func (v *view) usable() bool {
	return v.synced && !v.refused && !v.stopped && v.store.stop.Err() == nil
}

// settle says that the watch stands or cannot stand. The caller holds the lock.
func (v *view) settle() {
	if !v.known {
		v.known = true
		close(v.settled)
	}
}

// set puts an object in. The caller holds the lock.
func (v *view) set(o *object, own bool) {
	v.unset(o.key)
	v.objects[o.key] = entry{o, own}
	keys := v.releases[o.release()]
	if keys == nil {
		keys = map[types.NamespacedName]bool{}
		v.releases[o.release()] = keys
	}
	keys[o.key] = true
}

// unset takes an object out. The caller holds the lock.
func (v *view) unset(key types.NamespacedName) {
	was, ok := v.objects[key]
	if !ok {
		return
	}
	delete(v.objects, key)
	release := was.release()
	delete(v.releases[release], key)
	if len(v.releases[release]) == 0 {
		delete(v.releases, release)
	}
}

// find returns what is known of one Secret, nil for nothing, and whether the view can be believed.
func (v *view) find(key types.NamespacedName) (*object, bool) {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	return v.objects[key].object, v.usable()
}

// list returns the Secrets of a release; those of all in the namespace if it
// has no name. The caller holds the lock.
func (v *view) list(release types.NamespacedName) []*object {
	var out []*object
	if release.Name != "" {
		for key := range v.releases[release] {
			out = append(out, v.objects[key].object)
		}
		return out
	}
	for key, e := range v.objects {
		if key.Namespace == release.Namespace {
			out = append(out, e.object)
		}
	}
	return out
}

// wrote says that this store wrote the object. The caller holds the lock.
func (v *view) wrote(o *object) {
	was := v.objects[o.key].object
	if was != nil && (was.version == o.version || newer(was.version, o.version)) {
		return
	}
	v.set(o, true)
}

// removed says that this store deleted the object. The caller holds the lock.
func (v *view) removed(key types.NamespacedName, uid types.UID) {
	if was := v.objects[key].object; was != nil && was.uid == uid {
		v.unset(key)
		v.gone[uid] = tombstone{release: was.release(), version: was.version}
	}
}

// forget drops what is known of a Secret, unless a watch vouches for it.
func (v *view) forget(key types.NamespacedName) {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	if !v.usable() {
		v.unset(key)
	}
}

// seen takes in a Secret that the API server told of, and returns what changed
// by it. A list is believed over an earlier watch even if it is older: a
// restored etcd begins anew. The caller holds the lock.
func (v *view) seen(o *object, listed bool) []change {
	if _, ok := v.gone[o.uid]; ok {
		return nil
	}
	was, ok := v.objects[o.key]
	if ok && was.version == o.version {
		was.own = false
		v.objects[o.key] = was
		return nil
	}
	if ok && newer(was.version, o.version) && (was.own || !listed) {
		return nil
	}
	v.set(o, false)
	c := change{key: o.key, release: o.release(), uid: o.uid, version: o.version}
	changes := []change{c}
	if ok && was.release() != c.release {
		c.release = was.release()
		changes = append(changes, c)
	}
	return changes
}

// ended takes in that a Secret is gone. The caller holds the lock.
func (v *view) ended(o *object) []change {
	if _, ok := v.gone[o.uid]; ok {
		delete(v.gone, o.uid)
		return nil
	}
	was, ok := v.objects[o.key]
	if !ok || was.uid != o.uid {
		return nil
	}
	v.unset(o.key)
	return []change{{key: o.key, release: was.release(), uid: o.uid, gone: true}}
}

// merge takes in a complete list of a release's Secrets (of all if it is the
// zero value, of all of a namespace if it has no name), as of a version.
// The caller holds the lock.
func (v *view) merge(of types.NamespacedName, objects []*object, version string) []change {
	in := make(map[types.UID]bool, len(objects))
	var changes []change
	for _, o := range objects {
		in[o.uid] = true
		changes = append(changes, v.seen(o, true)...)
	}
	for key, e := range v.objects {
		if !covers(of, e.release()) || in[e.uid] || e.own && newer(e.version, version) {
			continue
		}
		v.unset(key)
		changes = append(changes, change{key: key, release: e.release(), uid: e.uid, gone: true})
	}
	for uid, t := range v.gone {
		if covers(of, t.release) && !in[uid] && !newer(t.version, version) {
			delete(v.gone, uid)
		}
	}
	return changes
}

// covers tells whether a list of the first has the Secrets of the second.
func covers(of, release types.NamespacedName) bool {
	return (of.Namespace == "" || of.Namespace == release.Namespace) && (of.Name == "" || of.Name == release.Name)
}

// Add implements cache.ReflectorStore.
func (v *view) Add(obj any) error { return v.deliver(obj, v.added) }

// Update implements cache.ReflectorStore.
func (v *view) Update(obj any) error { return v.deliver(obj, v.added) }

// Delete implements cache.ReflectorStore.
func (v *view) Delete(obj any) error { return v.deliver(obj, v.ended) }

// Resync implements cache.ReflectorStore.
func (v *view) Resync() error { return nil }

func (v *view) added(o *object) []change { return v.seen(o, false) }

func (v *view) deliver(obj any, take func(*object) []change) error {
	m, ok := obj.(metav1.Object)
	if !ok {
		return nil
	}
	o := objectOf(m)
	v.store.mu.Lock()
	var foreign []types.NamespacedName
	if !v.stopped {
		foreign = v.store.foreign(take(o))
	}
	v.store.mu.Unlock()
	v.store.notify(foreign)
	return nil
}

// Replace implements cache.ReflectorStore. The first list of a watch is news to nobody.
func (v *view) Replace(list []any, version string) error {
	objects := make([]*object, 0, len(list))
	for _, obj := range list {
		if m, ok := obj.(metav1.Object); ok {
			objects = append(objects, objectOf(m))
		}
	}
	v.store.mu.Lock()
	var foreign []types.NamespacedName
	if !v.stopped {
		changes := v.merge(types.NamespacedName{}, objects, version)
		if v.synced {
			foreign = v.store.foreign(changes)
		}
		v.synced, v.refused = true, false
		v.settle()
	}
	v.store.mu.Unlock()
	v.store.notify(foreign)
	return nil
}
