// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"os"

	"github.com/chartgate/chartgate/test/controlplane"
)

// Kubectl runs the real kubectl in the test's namespace and returns what it prints.
func (e *Env) Kubectl(args ...string) string {
	e.Helper()
	programs, err := controlplane.Resolve(e.Ctx, os.Stderr, controlplane.Kubectl)
	if err != nil {
		e.Fatal(err)
	}
	return e.run(programs[controlplane.Kubectl], append([]string{"--namespace", e.Namespace}, args...))
}
