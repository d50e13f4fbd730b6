// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"

	"github.com/chartgate/chartgate/hack/ociimage"
	"github.com/chartgate/chartgate/test/controlplane"
)

const (
	pauseImage   = RegistryInside + "/pause:1"
	coreDNSImage = RegistryInside + "/coredns:1"
)

// pushSystemImages puts the images of the node itself into the registry.
func (c *Cluster) pushSystemImages(ctx context.Context) error {
	for name, program := range map[string]controlplane.Program{
		"pause:1":   controlplane.Pause,
		"coredns:1": controlplane.CoreDNS,
	} {
		file := "/" + string(program)
		_, err := c.Push(ctx, name, ociimage.Spec{
			Entrypoint: []string{file},
			Layers:     []ociimage.Layer{{file: {Source: c.programs[program], Mode: 0o755}}},
		})
		if err != nil {
			return err
		}
	}
	return nil
}
