// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"
)

// maxIdentities bounds how many identities keep their clients at a time.
const maxIdentities = 512

// Pool makes and keeps the clients of each identity. The operator's own are
// kept for good, those of the least recently used others are dropped past a bound.
type Pool struct {
	base *rest.Config

	mu       sync.Mutex
	operator *Clients
	others   *lru.Cache
}

// NewPool returns a pool whose clients are made from base, the operator's own config.
func NewPool(base *rest.Config) *Pool {
	return &Pool{base: base, others: lru.New(maxIdentities)}
}

// For returns the clients of the identity.
func (p *Pool) For(id Identity) (*Clients, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.operator == nil {
		c, err := newClients(p.base, Operator, nil)
		if err != nil {
			return nil, err
		}
		p.operator = c
	}
	if id.IsOperator() {
		return p.operator, nil
	}
	if kept, ok := p.others.Get(id); ok {
		if c, ok := kept.(*Clients); ok {
			return c, nil
		}
	}
	c, err := newClients(p.base, id, p.operator)
	if err != nil {
		return nil, err
	}
	p.others.Add(id, c)
	return c, nil
}
