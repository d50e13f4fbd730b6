// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// quietFor is how long a command may say nothing before the demo says that it still runs.
const quietFor = 20 * time.Second

// A terminal runs shell commands and shows them as a person would see them.
type terminal struct {
	out    io.Writer
	styled bool
	dir    string   // working directory of the commands
	env    []string // added to this process's environment
}

func newTerminal() *terminal {
	info, err := os.Stdout.Stat()
	return &terminal{
		out:    os.Stdout,
		styled: err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "",
	}
}

func (t *terminal) style(code, text string) string {
	if !t.styled {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (t *terminal) title(text string) { fmt.Fprintf(t.out, "\n%s\n", t.style("1", "== "+text)) }

func (t *terminal) say(format string, args ...any) { fmt.Fprintf(t.out, format+"\n", args...) }

// good tells what was checked and holds.
func (t *terminal) good(format string, args ...any) {
	t.say("%s %s", t.style("32", "ok:"), fmt.Sprintf(format, args...))
}

// show runs a shell command, shows it with what it prints, and returns its standard output.
func (t *terminal) show(ctx context.Context, command string) (string, error) {
	t.prompt(command)
	var stdout bytes.Buffer
	shown := &watchedWriter{out: t.out, last: time.Now()}
	done := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() { shown.remind(done) })
	err := t.command(ctx, command, io.MultiWriter(&stdout, shown), shown)
	close(done)
	waiting.Wait()
	return stdout.String(), err
}

// ask runs a shell command without showing it: for checks behind the scenes.
func (t *terminal) ask(ctx context.Context, command string) (string, error) {
	var stdout, stderr bytes.Buffer
	if err := t.command(ctx, command, &stdout, &stderr); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

func (t *terminal) prompt(command string) { t.say("%s", t.style("36", "$ "+command)) }

func (t *terminal) command(ctx context.Context, command string, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -o pipefail; "+command)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), t.env...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%s: exit code %d", command, exit.ExitCode())
	}
	return fmt.Errorf("%s: %w", command, err)
}

// A watchedWriter remembers when something was last written.
type watchedWriter struct {
	mu   sync.Mutex
	out  io.Writer
	last time.Time
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
	return w.out.Write(p)
}

// remind says that a command still runs, whenever it has been quiet for long.
func (w *watchedWriter) remind(done <-chan struct{}) {
	start := time.Now()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		w.mu.Lock()
		if time.Since(w.last) >= quietFor {
			w.last = time.Now()
			_, _ = fmt.Fprintf(w.out, "... still at it after %s\n", time.Since(start).Round(time.Second))
		}
		w.mu.Unlock()
	}
}
