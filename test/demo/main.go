// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows Chartgate at work on a Kubernetes control plane of its
// own: it types what a person would type, prints it with its real output, and
// checks that each step holds.
//
// KEEP=1 leaves everything running, in .demo; --stop ends that.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
)

func main() {
	// The manager is told to die with the thread that started it: that has to be one that lasts.
	runtime.LockOSThread()
	os.Exit(run())
}

func run() int {
	keep := flag.Bool("keep", os.Getenv("KEEP") == "1", "leave cluster and manager running, in .demo (environment: KEEP=1)")
	stop := flag.Bool("stop", false, "stop what --keep left running")
	flag.Parse()

	// The first Ctrl-C cleans up; a second one doesn't wait for that.
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer restore()
	context.AfterFunc(ctx, restore)

	root, err := projectRoot()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	if *stop {
		err = stopKept(ctx, root, newTerminal())
	} else {
		err = newDemo(root, *keep).run(ctx)
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "\ndemo: interrupted")
		return 130
	case err != nil:
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		return 1
	default:
		return 0
	}
}

// projectRoot finds the folder of go.mod: commands and paths are relative to it.
func projectRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the project: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod here or above: run this in Chartgate's source tree")
		}
		dir = parent
	}
}
