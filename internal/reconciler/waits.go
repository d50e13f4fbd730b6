// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// waits remembers until when a change that failed is not to be tried again,
// whatever wakes its resource meanwhile. A restarted operator tries at once.
type waits struct {
	mu sync.Mutex
	m  map[types.UID]wait
}

type wait struct {
	digest string
	until  time.Time
}

func newWaits() *waits { return &waits{m: map[types.UID]wait{}} }

// set notes that the change is not to be tried before then.
func (w *waits) set(uid types.UID, digest string, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m[uid] = wait{digest: digest, until: until}
}

// left returns how long the change has to wait yet.
func (w *waits) left(uid types.UID, digest string, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.m[uid]; ok && at.digest == digest {
		return max(at.until.Sub(now), 0)
	}
	return 0
}

// clear forgets a resource.
func (w *waits) clear(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.m, uid)
}
