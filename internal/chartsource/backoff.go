// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"errors"
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

// settle fills in when to look again for what the query asks for.
func (r *Repository) settle(q *query, err error) error {
	return refused(err, q.interval, r.nextTry(q))
}

// refused fills in when to look again: after the interval where somebody has to
// do something, after the other time where it may pass.
func refused(err error, interval, passes time.Duration) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	out := *e
	switch {
	case e.RetryAfter < 0:
		out.RetryAfter = interval
	case e.RetryAfter == 0 && !e.Terminal:
		out.RetryAfter = passes
	}
	return &out
}

// nextTry tells when the repository is asked again for what failed.
func (r *Repository) nextTry(q *query) time.Duration {
	now := r.clock.Now()
	return max(r.failures.wait(q.key, now), r.failures.wait(q.listKey, now))
}
