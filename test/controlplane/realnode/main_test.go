// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// holderVariable makes the test binary start a cluster, describe it on standard
// output and wait to be killed.
const holderVariable = "CHARTGATE_TEST_REAL_NODE_HOLDER"

func TestMain(m *testing.M) {
	if os.Getenv(holderVariable) != "" {
		hold()
	}
	code := m.Run()
	if err := shared.end(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// A holding describes the cluster of a holder process.
type holding struct {
	Dir, Group string
	Servers    []supervise.Server
}

func hold() {
	cluster, err := Start(context.Background(), Options{MaxLife: 10 * time.Minute})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(holding{cluster.Dir(), cluster.group.name, cluster.Servers()}); err != nil {
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

// shared is the cluster of the tests that change nothing of its own.
var shared sharedCluster

type sharedCluster struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

func (s *sharedCluster) get(t *testing.T) *Cluster {
	t.Helper()
	needSupport(t)
	s.once.Do(func() {
		s.cluster, s.err = Start(context.Background(), Options{MaxLife: 20 * time.Minute, AuditLog: true})
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cluster
}

func (s *sharedCluster) end() error {
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Stop()
}

// needSupport skips a test where a cluster can't run.
func needSupport(t *testing.T) {
	t.Helper()
	if err := Supported(); err != nil {
		t.Skip(err)
	}
}

// testContext ends before the test binary's own time limit does.
func testContext(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}
