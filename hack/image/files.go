// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/chartgate/chartgate/hack/ociimage"
)

// certificatesFile is where Go looks for certificate authorities first. More of
// them can be mounted into its folder.
const certificatesFile = "etc/ssl/certs/ca-certificates.crt"

// compile builds the manager for an architecture. Nothing of the environment
// gets into the binary but the release of Go.
func compile(ctx context.Context, source, output, arch, version string) error {
	output, err := filepath.Abs(output)
	if err != nil {
		return err
	}
	//nolint:gosec // what is built is what the caller of the build asks for
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X github.com/chartgate/chartgate/internal/app.Version="+version,
		"-o", output, "./cmd/manager")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=-mod=readonly", "GOEXPERIMENT=", "GODEBUG=", "GOWORK=off")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the manager for linux/%s: %w", arch, err)
	}
	return nil
}

// stage lays out the image's files under root, with the permissions that they
// have in the image, so that the Dockerfile has to do no more than copy them.
func stage(source, watches, manager, root string) error {
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	files := ociimage.Layer{
		"/" + certificatesFile: {Content: certificates()},
		"/manager":             {Source: manager, Mode: 0o755},
		"/watches.yaml":        {Source: watches},
	}
	if err := files.Add("/helm-charts", filepath.Join(source, "helm-charts")); err != nil {
		return fmt.Errorf("charts: %w", err)
	}
	for target, file := range files {
		content := file.Content
		if file.Source != "" {
			var err error
			if content, err = os.ReadFile(file.Source); err != nil {
				return err
			}
		}
		if err := writeFile(filepath.Join(root, target), content, file.Mode); err != nil {
			return fmt.Errorf("stage %s: %w", target, err)
		}
	}
	return filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(file, 0o755) //nolint:gosec // folders of an image are for everybody
		}
		return errors.Join(err, os.Chtimes(file, ociimage.Created, ociimage.Created)) //nolint:gosec // nobody else writes there
	})
}

// writeFile writes a file with just this mode, whatever the umask.
func writeFile(file string, content []byte, mode fs.FileMode) error {
	if mode == 0 {
		mode = 0o644
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // folders of an image are for everybody
		return err
	}
	if err := os.WriteFile(file, content, mode); err != nil { //nolint:gosec // a folder of the build
		return err
	}
	return os.Chmod(file, mode)
}

// certificates returns the certificate authorities that Mozilla trusts, as the
// Go module has them. go.sum pins them, so every build has the same.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // writing to memory can't fail
	}
	return out.Bytes()
}

// operatorImage describes the image of the files under root. The Dockerfile
// says the same; a test compares the two.
func operatorImage(root, arch, version string) (ociimage.Spec, error) {
	// What changes with every commit is apart from what seldom does.
	certificates, charts, manager := ociimage.Layer{}, ociimage.Layer{}, ociimage.Layer{}
	err := errors.Join(
		certificates.Add("/etc", filepath.Join(root, "etc")),
		charts.Add("/helm-charts", filepath.Join(root, "helm-charts")),
		charts.Add("/watches.yaml", filepath.Join(root, "watches.yaml")),
		manager.Add("/manager", filepath.Join(root, "manager")),
	)
	return ociimage.Spec{
		Architecture: arch,
		Entrypoint:   []string{"/manager"},
		// Chart paths in watches.yaml are relative to the working directory. /tmp is the only folder
		// that is written to; the Deployment mounts an emptyDir there.
		WorkingDir: "/",
		Env:        []string{"HOME=/tmp"},
		User:       "65532:65532",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "chartgate",
			"org.opencontainers.image.source":   "https://github.com/chartgate/chartgate",
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.version":  version,
		},
		Layers: []ociimage.Layer{certificates, charts, manager},
	}, err
}
