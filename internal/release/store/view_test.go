// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fixture is a view without a watch, in sync, with a record of who was woken.
type fixture struct {
	*view
	woken []string
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{}
	s := New(t.Context(), nil, nil, logr.Discard(), func(ns, name string) { f.woken = append(f.woken, ns+"/"+name) })
	f.view = &view{
		store: s, settled: make(chan struct{}), objects: map[types.NamespacedName]entry{},
		releases: map[types.NamespacedName]map[types.NamespacedName]bool{}, gone: map[types.UID]tombstone{},
	}
	s.views[scope{}] = f.view
	f.list("1")
	return f
}

func secretMeta(uid string, version int) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "sh.helm.release.v1.a.v1", Namespace: "ns", UID: types.UID(uid), ResourceVersion: fmt.Sprint(version),
		Labels: map[string]string{"name": "a", "owner": "helm", "version": "1"},
	}}
}

func (f *fixture) add(o any)     { _ = f.Add(o) }
func (f *fixture) update(o any)  { _ = f.Update(o) }
func (f *fixture) deleted(o any) { _ = f.Delete(o) }

func (f *fixture) list(version string, all ...any) { _ = f.Replace(all, version) }

var fixtureKey = types.NamespacedName{Namespace: "ns", Name: "sh.helm.release.v1.a.v1"}

// request runs a request of the store, with what the watch tells meanwhile.
func (f *fixture) request(wrote *metav1.PartialObjectMetadata, removed string, meanwhile func()) {
	f.store.begin(fixtureKey)
	if meanwhile != nil {
		meanwhile()
	}
	var o *object
	if wrote != nil {
		o = objectOf(wrote)
	}
	f.store.finish(fixtureKey, f.view, o, types.UID(removed))
}

func TestViewShowsOwnWritesAndTellsOfForeignOnes(t *testing.T) {
	for name, test := range map[string]struct {
		do    func(*fixture)
		have  string // version of the Secret in the view
		woken int
	}{
		"own write, then its event": {func(f *fixture) {
			f.request(secretMeta("u", 10), "", nil)
			f.add(secretMeta("u", 10))
		}, "10", 0},
		"event before the response": {func(f *fixture) {
			f.request(secretMeta("u", 10), "", func() { f.add(secretMeta("u", 10)) })
		}, "10", 0},
		"foreign event during a request": {func(f *fixture) {
			f.request(secretMeta("u", 10), "", func() { f.add(secretMeta("u", 10)); f.update(secretMeta("u", 12)) })
		}, "12", 1},
		"foreign event during a request that fails": {func(f *fixture) {
			f.request(nil, "", func() { f.add(secretMeta("u", 10)) })
		}, "10", 1},
		"two own writes, events late": {func(f *fixture) {
			f.request(secretMeta("u", 10), "", nil)
			f.request(secretMeta("u", 12), "", nil)
			f.add(secretMeta("u", 10))
			f.update(secretMeta("u", 12))
		}, "12", 0},
		"own write, then a foreign one": {func(f *fixture) {
			f.request(secretMeta("u", 10), "", nil)
			f.add(secretMeta("u", 10))
			f.update(secretMeta("u", 14))
		}, "14", 1},
		"own deletion, events late": {func(f *fixture) {
			f.request(secretMeta("u", 10), "", nil)
			f.request(nil, "u", nil)
			f.add(secretMeta("u", 10))
			f.deleted(secretMeta("u", 11))
		}, "", 0},
		"own deletion, event before the response": {func(f *fixture) {
			f.request(secretMeta("u", 10), "", nil)
			f.request(nil, "u", func() { f.deleted(secretMeta("u", 11)) })
		}, "", 0},
		"foreign deletion during a request": {func(f *fixture) {
			f.request(secretMeta("u", 10), "", func() { f.add(secretMeta("u", 10)); f.deleted(secretMeta("u", 11)) })
		}, "", 1},
		"own deletion and creation, events late": {func(f *fixture) {
			f.request(secretMeta("u", 10), "", nil)
			f.request(nil, "u", nil)
			f.request(secretMeta("w", 20), "", nil)
			f.add(secretMeta("u", 10))
			f.deleted(secretMeta("u", 11))
			f.add(secretMeta("w", 20))
		}, "20", 0},
		"foreign creation and deletion": {func(f *fixture) {
			f.add(secretMeta("u", 10))
			f.deleted(secretMeta("u", 11))
		}, "", 2},
		"own write newer than a list": {func(f *fixture) {
			f.request(secretMeta("u", 10), "", nil)
			f.list("9")
		}, "10", 0},
		"own write, missing in a newer list": {func(f *fixture) {
			f.request(secretMeta("u", 10), "", nil)
			f.list("11")
		}, "", 1},
		"own deletion, a list older than it": {func(f *fixture) {
			f.request(secretMeta("u", 10), "", nil)
			f.request(nil, "u", nil)
			f.list("10", secretMeta("u", 10))
		}, "", 0},
		"a list that says what is known": {func(f *fixture) {
			f.request(secretMeta("u", 10), "", nil)
			f.list("30", secretMeta("u", 10))
			f.list("31", secretMeta("u", 10))
		}, "10", 0},
		"a restored etcd": {func(f *fixture) {
			f.add(secretMeta("u", 100))
			f.woken = nil
			f.list("20", secretMeta("u", 10))
		}, "10", 1},
		"another release name": {func(f *fixture) {
			f.add(secretMeta("u", 10))
			f.woken = nil
			m := secretMeta("u", 11)
			m.Labels = map[string]string{"name": "b", "owner": "helm"}
			f.update(m)
		}, "11", 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			test.do(f)
			have := ""
			if o, sure := f.find(fixtureKey); !sure {
				t.Error("the view is not believed")
			} else if o != nil {
				have = o.version
			}
			if have != test.have || len(f.woken) != test.woken {
				t.Errorf("the view has version %q, woken %v; want %q and %d", have, f.woken, test.have, test.woken)
			}
			if len(f.store.flights) != 0 {
				t.Error("a request is still in flight")
			}
			if n := len(f.releases[types.NamespacedName{Namespace: "ns", Name: "a"}]); (n == 1) != (have != "" && !slices.Contains(f.woken, "ns/b")) {
				t.Errorf("the release has %d Secrets", n)
			}
		})
	}
}

func TestTombstonesGoWithTheNextList(t *testing.T) {
	f := newFixture(t)
	f.request(secretMeta("u", 10), "", nil)
	f.request(nil, "u", nil)
	f.list("12")
	if len(f.gone) != 0 {
		t.Errorf("%d tombstones are left", len(f.gone))
	}
}
