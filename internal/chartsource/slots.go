// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"context"
	"sync"
)

const (
	// maxAtOnce bounds how many look-ups and downloads go on at a time.
	maxAtOnce = 32
	// maxEach bounds how many of them are for resources of one namespace: a tenant
	// whose repositories are slow holds up nobody else.
	maxEach = 8
	// maxUnpacking bounds how many charts are unpacked at a time, which takes memory.
	maxUnpacking = 2
)

// slots are shared out between namespaces.
type slots struct {
	total chan struct{}

	mu     sync.Mutex
	shares map[string]*share
}

type share struct {
	slots chan struct{}
	users int // that wait or have a slot
}

func newSlots() *slots {
	return &slots{total: make(chan struct{}, maxAtOnce), shares: map[string]*share{}}
}

// take waits for a slot. What it returns gives it back.
func (s *slots) take(ctx context.Context, namespace string) (free func(), err error) {
	own := s.join(namespace)
	if !acquire(ctx, own.slots) {
		s.leave(namespace)
		return nil, passing("too many charts are being looked up for namespace %s at the moment", namespace)
	}
	if !acquire(ctx, s.total) {
		<-own.slots
		s.leave(namespace)
		return nil, passing("too many charts are being looked up at the moment")
	}
	return func() {
		<-s.total
		<-own.slots
		s.leave(namespace)
	}, nil
}

func acquire(ctx context.Context, slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *slots) join(namespace string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, ok := s.shares[namespace]
	if !ok {
		own = &share{slots: make(chan struct{}, maxEach)}
		s.shares[namespace] = own
	}
	own.users++
	return own
}

func (s *slots) leave(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.shares[namespace]; own != nil {
		if own.users--; own.users == 0 {
			delete(s.shares, namespace)
		}
	}
}
