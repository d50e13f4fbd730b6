// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// holderVariable makes the test binary start a control plane, describe it on
// standard output and wait to be killed.
const holderVariable = "CHARTGATE_TEST_CONTROL_PLANE_HOLDER"

func TestMain(m *testing.M) {
	if os.Getenv(holderVariable) != "" {
		hold()
	}
	os.Exit(Main(m, Options{Controllers: true, Nodes: 2, AuditLog: true}))
}

// A holding describes the control plane of a holder process.
type holding struct {
	Dir     string
	Servers []supervise.Server
}

func hold() {
	cluster, err := Start(context.Background(), Options{MaxLife: 5 * time.Minute})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(holding{cluster.Dir(), cluster.Servers()}); err != nil {
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

// testContext ends before the test binary's own time limit does.
func testContext(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}
