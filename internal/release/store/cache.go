// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"container/list"
	"maps"
	"sync"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// cacheBytes and cacheCount bound the releases that are kept in memory.
	cacheBytes = 64 << 20
	cacheCount = 8192
)

// contentKey names one state of one Secret. Its content never changes.
type contentKey struct {
	uid     types.UID
	version string
}

// content is a release as it was stored, decoded when it is first asked for:
// most of what is written is never read.
type content struct {
	key     contentKey
	payload []byte               // compressed; nil once decoded
	release *helmrelease.Release // nil until decoded
	size    int                  // about, in bytes
}

// contentCache keeps the most recently used releases. It is safe for concurrent use.
type contentCache struct {
	maxBytes, maxCount int

	mu    sync.Mutex
	bytes int
	items map[contentKey]*list.Element
	order *list.List // of *content, most recently used first
}

func newContentCache(maxBytes, maxCount int) *contentCache {
	return &contentCache{maxBytes: maxBytes, maxCount: maxCount, items: map[contentKey]*list.Element{}, order: list.New()}
}

// get returns the decoded release, which the caller must not modify; nil if it is not kept.
func (c *contentCache) get(key contentKey) *helmrelease.Release {
	item := c.find(key)
	if item == nil {
		return nil
	}
	if item.release != nil {
		return item.release
	}
	rel, size, err := decode(item.payload)
	if err != nil {
		c.drop(key)
		return nil
	}
	c.put(&content{key: key, release: rel, size: size})
	return rel
}

// peek is get for a release that is kept decoded.
func (c *contentCache) peek(key contentKey) *helmrelease.Release {
	if item := c.find(key); item != nil {
		return item.release
	}
	return nil
}

func (c *contentCache) find(key contentKey) *content {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[key]
	if !ok {
		return nil
	}
	c.order.MoveToFront(e)
	return contentIn(e)
}

// written keeps what was just stored.
func (c *contentCache) written(key contentKey, payload []byte) {
	c.put(&content{key: key, payload: payload, size: len(payload) + 256})
}

func (c *contentCache) put(item *content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(item.key)
	if item.size > c.maxBytes {
		return
	}
	c.items[item.key] = c.order.PushFront(item)
	c.bytes += item.size
	for c.bytes > c.maxBytes || c.order.Len() > c.maxCount {
		c.remove(contentIn(c.order.Back()).key)
	}
}

// rename says that the Secret has a new version with the same content.
func (c *contentCache) rename(from, to contentKey) {
	if item := c.find(from); item != nil && from != to {
		c.put(&content{key: to, payload: item.payload, release: item.release, size: item.size})
		c.drop(from)
	}
}

func (c *contentCache) drop(key contentKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
}

// remove removes an item. The caller holds the lock.
func (c *contentCache) remove(key contentKey) {
	e, ok := c.items[key]
	if !ok {
		return
	}
	delete(c.items, key)
	c.order.Remove(e)
	c.bytes -= contentIn(e).size
}

func contentIn(e *list.Element) *content {
	item, _ := e.Value.(*content)
	return item
}

// share returns a copy of a cached release that the caller may relabel and give
// another status. Chart, config and manifest are those of the cache.
func share(rel *helmrelease.Release, labels map[string]string) *helmrelease.Release {
	out := *rel
	info := *rel.Info
	info.Resources = maps.Clone(info.Resources)
	out.Info = &info
	if rel.Hooks != nil {
		out.Hooks = make([]*helmrelease.Hook, len(rel.Hooks))
		for i, h := range rel.Hooks {
			hook := *h // Helm notes in place when it ran
			out.Hooks[i] = &hook
		}
	}
	out.Labels = releaseLabels(labels)
	return &out
}
