// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/hack/ociimage"
	"github.com/chartgate/chartgate/test/controlplane"
)

// workloadUser is the user as whom OLM's own images run, as those of its
// releases do.
const workloadUser = "1001"

// A Registry takes images.
type Registry interface {
	// Push builds an image, pushes it under a name and tag, such as tiny:v1,
	// and returns the reference that nodes pull it by.
	Push(ctx context.Context, name string, spec ociimage.Spec) (string, error)
}

// systemImages builds and pushes the images of OLM and opm.
func systemImages(ctx context.Context, registry Registry, programs map[controlplane.Program]string) (olm, opm string, err error) {
	busybox, err := staticBusybox()
	if err != nil {
		return "", "", err
	}
	layer := ociimage.Layer{
		// OLM's init containers copy with it.
		"/bin/cp": {Source: busybox, Mode: 0o755},
		"/tmp":    {Mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
	for _, program := range []controlplane.Program{
		controlplane.OLMOperator, controlplane.OLMCatalogOperator, controlplane.OLMPackageServer,
		controlplane.OLMCopyContent, controlplane.OLMCopyBundle,
	} {
		layer["/bin/"+string(program)] = ociimage.File{Source: programs[program], Mode: 0o755}
	}
	olm, err = registry.Push(ctx, "operator-framework/olm:test", ociimage.Spec{
		Entrypoint: []string{"/bin/olm"},
		Env:        []string{"PATH=/bin"},
		User:       workloadUser,
		Layers:     []ociimage.Layer{layer},
	})
	if err != nil {
		return "", "", err
	}
	opm, err = registry.Push(ctx, "operator-framework/opm:test", opmSpec(programs))
	return olm, opm, err
}

// opmSpec is the image of opm, which is also the base of catalogs.
func opmSpec(programs map[controlplane.Program]string) ociimage.Spec {
	return ociimage.Spec{
		Entrypoint: []string{"/bin/opm"},
		Env:        []string{"PATH=/bin"},
		User:       workloadUser,
		Layers: []ociimage.Layer{{
			"/bin/opm":               {Source: programs[controlplane.OPM], Mode: 0o755},
			"/bin/grpc_health_probe": {Source: programs[controlplane.GRPCHealthProbe], Mode: 0o755},
			"/etc/nsswitch.conf":     {Content: []byte("hosts: files dns\n")},
			"/tmp":                   {Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		}},
	}
}

// staticBusybox finds a busybox that runs in an image with nothing else in it.
func staticBusybox() (string, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return "", fmt.Errorf("OLM's images need a static busybox (package busybox-static of Debian): %w", err)
	}
	program, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	defer program.Close()
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%s needs libraries, which OLM's images have not: install a static busybox (package busybox-static of Debian)", path)
		}
	}
	return path, nil
}

// CatalogImage builds and pushes an image that serves a file-based catalog,
// and returns its reference. The server makes its cache when it starts.
func CatalogImage(ctx context.Context, registry Registry, name, configs string) (string, error) {
	programs, err := controlplane.Resolve(ctx, os.Stderr, controlplane.OPM, controlplane.GRPCHealthProbe)
	if err != nil {
		return "", fmt.Errorf("prepare the programs of a catalog: %w", err)
	}
	spec := opmSpec(programs)
	spec.Command = []string{"serve", "/configs", "--cache-dir=/tmp/cache", "--cache-enforce-integrity=false", "--pprof-addr="}
	spec.Labels = map[string]string{"operators.operatorframework.io.index.configs.v1": "/configs"}
	layer := ociimage.Layer{}
	if err := layer.Add("/configs", configs); err != nil {
		return "", fmt.Errorf("read the catalog %s: %w", configs, err)
	}
	if len(layer) == 0 {
		return "", fmt.Errorf("the catalog %s is empty", configs)
	}
	spec.Layers = append(spec.Layers, layer)
	return registry.Push(ctx, name, spec)
}

// BundleImage builds and pushes the image of a bundle folder, which has the
// folders manifests and metadata and may have tests, and returns its
// reference. The image's labels are the annotations in the metadata.
func BundleImage(ctx context.Context, registry Registry, name, dir string) (string, error) {
	content, err := os.ReadFile(filepath.Join(dir, "metadata", "annotations.yaml"))
	if err != nil {
		return "", fmt.Errorf("read the annotations of the bundle: %w", err)
	}
	var metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := yaml.UnmarshalStrict(content, &metadata); err != nil {
		return "", fmt.Errorf("read the annotations of the bundle %s: %w", dir, err)
	}
	if metadata.Annotations["operators.operatorframework.io.bundle.package.v1"] == "" {
		return "", fmt.Errorf("the annotations of the bundle %s name no package", dir)
	}
	layer := ociimage.Layer{}
	for _, folder := range []string{"manifests", "metadata", "tests"} {
		err := layer.Add("/"+folder, filepath.Join(dir, folder))
		if errors.Is(err, fs.ErrNotExist) && folder == "tests" {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("read the bundle %s: %w", dir, err)
		}
	}
	return registry.Push(ctx, name, ociimage.Spec{Labels: metadata.Annotations, Layers: []ociimage.Layer{layer}})
}
