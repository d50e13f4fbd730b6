// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func newRecord(name string, pid int, log string) (processRecord, error) {
	started, err := startTime(pid)
	if err != nil {
		return processRecord{}, fmt.Errorf("identify %s (pid %d): %w", name, pid, err)
	}
	return processRecord{Name: name, PID: pid, Started: started, Log: log}, nil
}

// alive tells whether the very process that was recorded still runs.
func (r processRecord) alive() bool {
	started, err := startTime(r.PID)
	return err == nil && started == r.Started
}

// signal sends a signal to the recorded process, and to no later one with the
// same id.
func (r processRecord) signal(s syscall.Signal) {
	if r.alive() {
		_ = syscall.Kill(r.PID, s)
	}
}

// gone waits until the process has ended and reports whether it did in time.
func (r processRecord) gone(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for r.alive() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return true
}

// startTime returns a value that, with the process id, identifies a running
// process: Linux's clock ticks since boot, elsewhere ps's start time. A zombie
// does not run.
func startTime(pid int) (string, error) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		output, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
		if err != nil {
			return "", fmt.Errorf("ask ps for process %d: %w", pid, err)
		}
		status, started, _ := strings.Cut(strings.TrimSpace(string(output)), " ")
		if strings.HasPrefix(status, "Z") {
			return "", fmt.Errorf("process %d has ended", pid)
		}
		return strings.TrimSpace(started), nil
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", fmt.Errorf("look up process %d: %w", pid, err)
	}
	// The name, in parentheses, may hold anything. After it, the state is the
	// first field and the start time the twentieth.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", fmt.Errorf("look up process %d: unknown format %q", pid, stat)
	}
	if string(fields[0]) == "Z" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return string(fields[19]), nil
}
