// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package dependents

import (
	"os"
	"testing"

	"github.com/chartgate/chartgate/test/controlplane"
)

func TestMain(m *testing.M) { os.Exit(controlplane.Main(m, controlplane.Options{})) }
