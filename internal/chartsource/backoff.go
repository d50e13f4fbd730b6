// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"sync"
	"time"
)

const (
	// firstRetry and lastRetry bound how long a failure is remembered: what asks
	// in the meantime, be it a thousand resources, is told the same.
	firstRetry = 2 * time.Second
	lastRetry  = time.Minute
	// missAge is how old a list of versions may be for a version that is not in it to be missing.
	missAge = 30 * time.Second
)

// failures remembers what failed lately.
type failures struct {
	mu    sync.Mutex
	items *lru[failure]
}

type failure struct {
	err   *Error
	until time.Time
	count int
}

func newFailures() *failures { return &failures{items: newLRU[failure](maxRemembered)} }

// recent returns what the key failed with, if that was so lately that another try is no use.
func (f *failures) recent(key string, now time.Time) error {
	item, ok := f.items.get(key)
	if !ok || !now.Before(item.until) {
		return nil
	}
	return item.err
}

// wait tells when the key may be tried again.
func (f *failures) wait(key string, now time.Time) time.Duration {
	item, _ := f.items.get(key)
	return max(item.until.Sub(now), firstRetry)
}

func (f *failures) add(key string, err *Error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	item, _ := f.items.get(key)
	wait := firstRetry
	for range item.count {
		if wait *= 2; wait >= lastRetry {
			wait = lastRetry
			break
		}
	}
	if err.Terminal {
		wait = max(wait, missAge)
	}
	f.items.put(key, failure{err: err, until: now.Add(wait), count: item.count + 1}, 1)
}

func (f *failures) clear(key string) { f.items.drop(key) }
