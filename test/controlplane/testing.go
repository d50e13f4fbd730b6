// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// shared is the control plane of the running test binary.
var shared struct {
	sync.Mutex
	options *Options        // set by Main
	ctx     context.Context // ends a start when the tests are interrupted
	cluster *Cluster
	err     error
}

// Main runs a package's tests with a control plane that they share, and stops
// it at the end, also after an interrupt. The control plane starts when a test
// first asks for it with [Shared], so a run that selects none of them is quick.
// It returns the exit code for TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(controlplane.Main(m, controlplane.Options{})) }
func Main(m *testing.M, options Options) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	shared.Lock()
	shared.options, shared.ctx = &options, ctx
	shared.Unlock()

	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		received, ok := <-interrupted
		if !ok {
			return
		}
		cancel()
		if err := stopShared(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		fmt.Fprintf(os.Stderr, "the tests were stopped: %v\n", received)
		os.Exit(130)
	}()

	code := m.Run()
	signal.Stop(interrupted)
	close(interrupted)
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Shared returns the control plane of the package's tests, whose options its
// TestMain gave to [Main]. The test fails at once if it can't start.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.options == nil {
		t.Fatal("no control plane: call controlplane.Main from this package's TestMain")
	}
	if shared.cluster == nil && shared.err == nil {
		shared.cluster, shared.err = Start(shared.ctx, *shared.options)
	}
	if shared.err != nil {
		t.Fatalf("no control plane: %v", shared.err)
	}
	return shared.cluster
}

func stopShared() error {
	shared.Lock()
	defer shared.Unlock()
	shared.options = nil
	if shared.cluster == nil {
		return nil
	}
	return shared.cluster.Stop()
}

var unfitForName = regexp.MustCompile(`[^a-z0-9]+`)

// Namespace creates a namespace for one test and returns its name, which
// starts with the test's. With controllers it waits until Pods can be created
// in it. It stays until the cluster ends: to empty a namespace, the controllers
// ask for every resource there is, one by one, which for all tests together is
// most of what the API server would be asked at all.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	prefix := strings.Trim(unfitForName.ReplaceAllString(strings.ToLower(t.Name()), "-"), "-")
	prefix = strings.TrimRight(prefix[:min(len(prefix), 40)], "-")
	created, err := c.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a namespace for the test: %v", err)
	}
	if !c.options.Controllers {
		return created.Name
	}
	err = supervise.WaitFor(ctx, "the default ServiceAccount of "+created.Name, func(ctx context.Context) error {
		return c.hasServiceAccount(ctx, created.Name)
	})
	if err != nil {
		t.Fatal(err)
	}
	return created.Name
}
