// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"io"
	"time"
)

// progress tells a person what is done and how long it took.
type progress struct {
	out         io.Writer
	begin, last time.Time
}

func newProgress(out io.Writer) *progress {
	now := time.Now()
	return &progress{out: out, begin: now, last: now}
}

func (p *progress) done(what string) {
	now := time.Now()
	fmt.Fprintf(p.out, "%6.1f s  (%4.1f s)  %s\n", now.Sub(p.begin).Seconds(), now.Sub(p.last).Seconds(), what)
	p.last = now
}
