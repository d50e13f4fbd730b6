// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"context"
	"fmt"
	"os"

	"github.com/chartgate/chartgate/hack/ociimage"
	"github.com/chartgate/chartgate/test/controlplane"
)

// ScorecardImages are what operator-sdk scorecard runs on a cluster, beside the tests of a project.
type ScorecardImages struct {
	// Test holds operator-sdk's own tests.
	Test string
	// Untar unpacks the bundle for each test.
	Untar string
}

// PushScorecard builds and pushes the images, and returns their references.
func PushScorecard(ctx context.Context, registry Registry) (ScorecardImages, error) {
	var images ScorecardImages
	programs, err := controlplane.Resolve(ctx, os.Stderr, controlplane.ScorecardTest)
	if err != nil {
		return images, fmt.Errorf("prepare operator-sdk's scorecard tests: %w", err)
	}
	busybox, err := staticBusybox()
	if err != nil {
		return images, err
	}
	for name, image := range map[string]struct {
		program, path string
		reference     *string
	}{
		"scorecard-test":  {programs[controlplane.ScorecardTest], "/bin/scorecard-test", &images.Test},
		"scorecard-untar": {busybox, "/bin/tar", &images.Untar},
	} {
		*image.reference, err = registry.Push(ctx, "operator-framework/"+name+":test", ociimage.Spec{
			Env:    []string{"PATH=/bin"},
			User:   workloadUser,
			Layers: []ociimage.Layer{{image.path: {Source: image.program, Mode: 0o755}}},
		})
		if err != nil {
			return images, err
		}
	}
	return images, nil
}
