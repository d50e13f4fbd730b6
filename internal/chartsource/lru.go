// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"container/list"
	"sync"
)

// lru keeps values until what they cost together exceeds the limit; then the
// ones that were not used for longest go. It is safe for concurrent use.
type lru[V any] struct {
	limit int64
	// dropped is called, if set, with the key of what goes to make room.
	dropped func(key string)

	mu    sync.Mutex
	cost  int64
	order *list.List // most recently used first
	items map[string]*list.Element
}

type lruItem[V any] struct {
	key   string
	value V
	cost  int64
}

func newLRU[V any](limit int64) *lru[V] {
	return &lru[V]{limit: limit, order: list.New(), items: map[string]*list.Element{}}
}

func (l *lru[V]) get(key string) (value V, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.items[key]
	if !ok {
		return value, false
	}
	l.order.MoveToFront(e)
	return item[V](e).value, true
}

// put keeps the value, even one that is over the limit by itself until the next comes.
func (l *lru[V]) put(key string, value V, cost int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(key)
	l.items[key] = l.order.PushFront(&lruItem[V]{key: key, value: value, cost: cost})
	for l.cost += cost; l.cost > l.limit && l.order.Len() > 1; {
		key := item[V](l.order.Back()).key
		l.remove(key)
		if l.dropped != nil {
			l.dropped(key)
		}
	}
}

func (l *lru[V]) drop(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(key)
}

func (l *lru[V]) remove(key string) {
	if e, ok := l.items[key]; ok {
		l.cost -= item[V](e).cost
		l.order.Remove(e)
		delete(l.items, key)
	}
}

func item[V any](e *list.Element) *lruItem[V] {
	return e.Value.(*lruItem[V]) //nolint:errcheck // nothing else is in the list
}
