// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"os/exec"
	"testing"
	"time"
)

// TestDockerfile builds the Dockerfile with a real builder and compares the
// result with the image that the other tests run, which is made without one.
func TestDockerfile(t *testing.T) {
	t.Parallel() // it uses no cluster
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Fatalf("%v: hack/e2e-deps.sh --with-buildah installs it", err)
	}
	cmd := exec.CommandContext(limited(t), "hack/compare-image.sh")
	cmd.Dir, cmd.WaitDelay = env.root, 10*time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
