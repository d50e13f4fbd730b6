// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"io"
	"os"
	"time"
)

// A reporter tells a person what takes long. On a terminal it rewrites one
// line every second; elsewhere it adds a line every ten seconds.
type reporter struct {
	out      io.Writer
	terminal bool
}

func newReporter(out io.Writer) reporter {
	if out == nil {
		out = io.Discard
	}
	return reporter{out: out, terminal: isTerminal(out)}
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (r reporter) line(format string, arguments ...any) {
	fmt.Fprintf(r.out, format+"\n", arguments...)
}

// start announces a step and shows the seconds that it takes until the
// returned function is called with its result.
func (r reporter) start(step string) (done func(error)) {
	begin := time.Now()
	interval, prefix, suffix := 10*time.Second, "", "\n"
	if r.terminal {
		interval, prefix, suffix = time.Second, "\r\033[K", ""
	}
	fmt.Fprint(r.out, prefix, step, " ...", suffix)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				fmt.Fprintf(r.out, "%s%s ... %.0f s%s", prefix, step, time.Since(begin).Seconds(), suffix)
			}
		}
	}()
	return func(err error) {
		close(stop)
		<-stopped
		outcome := "done"
		if err != nil {
			outcome = "failed"
		}
		fmt.Fprintf(r.out, "%s%s: %s after %.0f s\n", prefix, step, outcome, time.Since(begin).Seconds())
	}
}
