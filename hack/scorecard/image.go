// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/chartgate/chartgate/hack/ociimage"
)

// program is where the tests are in their image, and in a test's entrypoint in config/scorecard.
const program = "/bin/chartgate-scorecard"

// imageOptions say which image is built, and where to.
type imageOptions struct {
	name          string
	architectures []string
	output        string
	push          bool
}

// build compiles this program for each architecture and makes an image of it.
func (o imageOptions) build(ctx context.Context) error {
	output, err := filepath.Abs(o.output)
	if err != nil {
		return err
	}
	images := make([]v1.Image, 0, len(o.architectures))
	for _, arch := range o.architectures {
		binary := filepath.Join(output, "scorecard-linux-"+arch)
		//nolint:gosec // what is built is what the caller asks for
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", binary, "./hack/scorecard")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build the scorecard tests for linux/%s: %w", arch, err)
		}
		image, err := ociimage.Build(ociimage.Spec{
			Architecture: arch,
			Entrypoint:   []string{program},
			User:         "65532:65532",
			Layers:       []ociimage.Layer{{program: {Source: binary, Mode: 0o755}}},
		})
		if err != nil {
			return err
		}
		if err := ociimage.Save(filepath.Join(output, "scorecard-linux-"+arch+".tar"), o.name, image); err != nil {
			return err
		}
		images = append(images, image)
	}
	return ociimage.Publish(ctx, os.Stdout, o.name, output, o.push, images...)
}
