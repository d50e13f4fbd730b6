// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// setUpLimit bounds the time until the cluster, OLM and the images are there,
// without the build of programs that are not in the cache yet.
const setUpLimit = 25 * time.Minute

// interrupted is the exit code of tests that a signal stopped.
const interrupted = 130

// env is what all tests use.
var env *environment

// atOnce is how many tests run side by side where the command line says nothing else: they wait for most of their time.
const atOnce = "5"

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, m))
}

func run(ctx context.Context, m *testing.M) int {
	var err error
	if err = flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	setUp, cancel := context.WithTimeoutCause(ctx, setUpLimit, fmt.Errorf("the set-up took longer than %s", setUpLimit))
	defer cancel()
	env, err = newEnvironment(setUp)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		env.stop()
		return 1
	}
	code, ended := interrupted, make(chan int, 1)
	go func() { ended <- m.Run() }()
	select {
	case code = <-ended:
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr, "e2e: the tests were stopped")
	}
	if code != 0 && ctx.Err() == nil && os.Getenv(keepVariable) == "1" {
		fmt.Fprintf(os.Stderr, "e2e: %s=1: the cluster stays until this process ends; kubectl --kubeconfig %s; Ctrl-C ends it\n",
			keepVariable, env.cluster.KubeconfigPath())
		<-ctx.Done()
	}
	env.stop()
	return code
}

// keepVariable set to 1 keeps the cluster for a look after a test failed.
const keepVariable = "KEEP"
