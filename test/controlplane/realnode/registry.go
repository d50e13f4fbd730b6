// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/chartgate/chartgate/hack/ociimage"
)

// RegistryInside is the registry's host as Pods' images name it. What is
// pushed to [Cluster.Registry]/NAME is pulled as RegistryInside/NAME.
const RegistryInside = "localhost:5000"

// registrySocket is the Unix socket, in the cluster's folder, at which the
// node reaches the registry.
const registrySocket = "registry.sock"

// An imageRegistry serves images to this machine and to the node.
type imageRegistry struct {
	address string
	server  *http.Server
}

func startRegistry(dir, socket string) (*imageRegistry, error) {
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port for the registry: %w", err)
	}
	inside, err := listenUnix(socket)
	if err != nil {
		_ = outside.Close()
		return nil, fmt.Errorf("listen at the registry's socket: %w", err)
	}
	quiet := log.New(io.Discard, "", 0)
	handler := registry.New(registry.Logger(quiet), registry.WithBlobHandler(registry.NewDiskBlobHandler(dir)))
	r := &imageRegistry{
		address: outside.Addr().String(),
		server:  &http.Server{Handler: handler, ErrorLog: quiet},
	}
	for _, listener := range []net.Listener{outside, inside} {
		go func() { _ = r.server.Serve(listener) }()
	}
	return r, nil
}

func (r *imageRegistry) close() { _ = r.server.Close() }

// Registry returns the registry's host and port outside of the cluster, for
// pushing. It speaks plain HTTP.
func (c *Cluster) Registry() string { return c.registry.address }

// Push builds an image and puts it into the registry under a name such as
// "web:v1". It returns the reference that Pods pull, by digest.
func (c *Cluster) Push(ctx context.Context, name string, spec ociimage.Spec) (string, error) {
	image, err := ociimage.Build(spec)
	if err != nil {
		return "", fmt.Errorf("build the image %s: %w", name, err)
	}
	reference, err := ociimage.Push(ctx, c.Registry()+"/"+name, image)
	if err != nil {
		return "", err
	}
	rest, found := strings.CutPrefix(reference, c.Registry()+"/")
	if !found {
		return "", errors.New("push " + name + ": the registry gave the reference " + reference)
	}
	return RegistryInside + "/" + rest, nil
}
