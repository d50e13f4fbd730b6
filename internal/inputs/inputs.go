// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/identity"
)

const (
	// maxWatches bounds how many watches there are at a time. Past it objects are read instead.
	maxWatches = 4096
	// settleTimeout bounds how long a read waits for a watch to be established.
	settleTimeout = 2 * time.Second
	// retryInterval is the time after which a watch that was refused is tried again. It doubles
	// each time, up to maxRetries times as much.
	retryInterval = 15 * time.Second
	maxRetries    = 8
	// readTimeout bounds one request.
	readTimeout = 10 * time.Second
)

// Inputs are the watches of what gates look at. They are safe for concurrent use.
type Inputs struct {
	ctx   context.Context
	pool  *identity.Pool
	log   logr.Logger
	wake  func(dependents.Owner)
	retry time.Duration

	protection *protection

	mu      sync.Mutex
	owners  map[dependents.Owner]*ownerState
	index   map[target]map[dependents.Owner]int
	uses    map[watchKey]int
	watches map[watchKey]*watch
}

// New returns inputs without watches. Watches run until ctx ends. wake is called,
// from any goroutine, for a resource whose gates look at an object that changed.
func New(ctx context.Context, pool *identity.Pool, log logr.Logger, wake func(dependents.Owner)) *Inputs {
	i := &Inputs{
		ctx: ctx, pool: pool, log: log, wake: wake, retry: retryInterval,
		owners: map[dependents.Owner]*ownerState{}, index: map[target]map[dependents.Owner]int{},
		uses: map[watchKey]int{}, watches: map[watchKey]*watch{},
	}
	i.protection = &protection{inputs: i, watches: map[schema.GroupVersionKind]*watch{}}
	return i
}

// For returns a reader that reads as the identity, for the gates of the owner.
// Approvals it reads as the operator. What it reads wakes the owner when it
// changes, as if Refer had named it, until two calls of Refer have gone by without another read.
func (i *Inputs) For(id identity.Identity, owner dependents.Owner) gate.Reader {
	return reader{inputs: i, id: id, owner: owner}
}

// Refer says that the gates of the owner, which is served as the identity, look
// at exactly these objects: changes of others do not wake it any more, and
// watches that nobody needs end. What was read since the last call stays, be it
// by a gate or for chart and values. Call it before each evaluation; it makes no request.
func (i *Inputs) Refer(owner dependents.Owner, id identity.Identity, refs []gate.Ref) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, known := i.owners[owner]; !known && len(refs) == 0 {
		return
	}
	state := i.state(owner)
	told := make(map[use]bool, len(refs))
	for _, ref := range refs {
		told[useOf(id, ref)] = true
	}
	for u := range told {
		i.add(owner, state, u)
	}
	for u, epoch := range state.uses {
		if !told[u] && !state.contents[u] && (state.told[u] || epoch < state.epoch) {
			i.remove(owner, state, u)
		}
	}
	state.told = told
	clear(state.contents)
	state.epoch++
	if len(state.uses) == 0 {
		delete(i.owners, owner)
	}
}

// Forget drops all that is known of the owner. Call it when the owner is gone.
func (i *Inputs) Forget(owner dependents.Owner) {
	i.mu.Lock()
	defer i.mu.Unlock()
	state, ok := i.owners[owner]
	if !ok {
		return
	}
	for u := range state.uses {
		i.remove(owner, state, u)
	}
	delete(i.owners, owner)
}
