// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package removal tests what becomes of workloads when resources, the operator
// and the kinds are taken away, in each order that docs/install.md has, by the
// commands that it gives. The tests take kinds away from the whole cluster, so
// they have one of their own, and run one after the other.
package removal

import (
	"os"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/harness"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(harness.Logger())
	os.Exit(controlplane.Main(m, controlplane.Options{Controllers: true, Nodes: 1}))
}
