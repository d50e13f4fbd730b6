// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images makes the container images that stand in for those of the
// example charts in tests on real nodes.
package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/chartgate/chartgate/hack/ociimage"
)

const (
	helloPackage = "github.com/chartgate/chartgate/test/e2e/images/hello"
	tag          = "v1"
)

// Names of what [Push] pushes. They are the same image under names of their
// own, so that tests can change one of them.
const (
	// Hello serves HTTP on port 80 and has the command get.
	Hello = "hello"
	// Frontend and Redis stand in for the images of the guestbook.
	Frontend = "frontend"
	Redis    = "redis"
)

// A Registry takes images.
type Registry interface {
	// Push builds an image, pushes it under a name and tag, and returns the
	// reference that nodes pull it by.
	Push(ctx context.Context, name string, spec ociimage.Spec) (string, error)
}

// Push builds the images, pushes them and returns their references, by tag, by
// their names.
func Push(ctx context.Context, registry Registry) (map[string]string, error) {
	dir, err := os.MkdirTemp("", "chartgate-hello-")
	if err != nil {
		return nil, fmt.Errorf("create a folder to build in: %w", err)
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "hello")
	if err := build(ctx, program); err != nil {
		return nil, err
	}
	references := map[string]string{}
	for _, name := range []string{Hello, Frontend, Redis} {
		reference, err := registry.Push(ctx, "e2e/"+name+":"+tag, spec(program))
		if err != nil {
			return nil, err
		}
		// Charts take a repository and a tag, not a digest.
		if repository, _, byDigest := strings.Cut(reference, "@"); byDigest {
			reference = repository + ":" + tag
		}
		references[name] = reference
	}
	return references, nil
}

// Split returns a reference's repository and tag, which charts take apart.
func Split(reference string) (repository, tag string, err error) {
	colon := strings.LastIndex(reference, ":")
	if colon <= strings.LastIndex(reference, "/") || strings.Contains(reference, "@") {
		return "", "", fmt.Errorf("%q has no tag, or a digest", reference)
	}
	return reference[:colon], reference[colon+1:], nil
}

func build(ctx context.Context, program string) error {
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, helloPackage)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	command.WaitDelay = 10 * time.Second
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", helloPackage, err, output)
	}
	return nil
}

// spec is an image that works as any user, with a root filesystem that can't be
// written.
func spec(program string) ociimage.Spec {
	return ociimage.Spec{
		Entrypoint: []string{"/bin/hello"},
		Env:        []string{"PATH=/bin"},
		User:       "65532:65532",
		Layers: []ociimage.Layer{{
			"/bin/hello":        {Source: program, Mode: 0o755},
			"/bin/redis-server": {Content: []byte("hello"), Mode: os.ModeSymlink},
		}},
	}
}
