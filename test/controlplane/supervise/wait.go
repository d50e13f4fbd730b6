// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package supervise

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// WaitFor polls check until it succeeds, ctx ends or one of the servers
// leaves. The error then ends with the last lines of a server's log: that of
// the one that left, else the first one's.
func WaitFor(ctx context.Context, what string, check func(context.Context) error, servers ...*Process) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := check(attempt)
		cancel()
		if err == nil {
			return nil
		}
		for _, server := range servers {
			if !server.Running() {
				return server.failure(fmt.Errorf("it left while waiting for %s", what))
			}
		}
		select {
		case <-ctx.Done():
			err = fmt.Errorf("waiting for %s: %w; last answer: %w", what, context.Cause(ctx), err)
			if len(servers) > 0 {
				return servers[0].failure(err)
			}
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// tailFile returns the last lines of a log.
func tailFile(path string) string {
	const limit = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > limit {
		_, _ = file.Seek(-limit, io.SeekEnd)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return Tail(string(content), 20)
}

// Tail returns the last lines of a text.
func Tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}
