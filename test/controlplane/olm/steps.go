// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"fmt"
	"io"
	"time"
)

// steps tells a person which step runs and how long it took.
type steps struct{ out io.Writer }

func newSteps(out io.Writer) steps {
	if out == nil {
		out = io.Discard
	}
	return steps{out}
}

func (s steps) run(name string, do func() error) error {
	begin := time.Now()
	if err := do(); err != nil {
		fmt.Fprintf(s.out, "%s: failed after %.1f s\n", name, time.Since(begin).Seconds())
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(s.out, "%s: %.1f s\n", name, time.Since(begin).Seconds())
	return nil
}
