// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chartgate/chartgate/hack/ociimage"
	"github.com/chartgate/chartgate/test/controlplane/olm"
)

// shelf is a registry that keeps what images are made of.
type shelf map[string]ociimage.Spec

func (s shelf) Push(_ context.Context, name string, spec ociimage.Spec) (string, error) {
	s[name] = spec
	return "localhost:5000/" + name, nil
}

func TestBundleImageHasTheAnnotationsAsLabels(t *testing.T) {
	pushed := shelf{}
	reference, err := olm.BundleImage(t.Context(), pushed, "tiny-bundle:v1", tinyBundle)
	must(t, err)
	if reference != "localhost:5000/tiny-bundle:v1" {
		t.Errorf("reference %s", reference)
	}
	spec := pushed["tiny-bundle:v1"]
	if got := spec.Labels["operators.operatorframework.io.bundle.package.v1"]; got != "tiny" {
		t.Errorf("the labels are %v", spec.Labels)
	}
	for _, file := range []string{"/metadata/annotations.yaml", "/manifests/tiny.clusterserviceversion.yaml"} {
		if _, ok := spec.Layers[0][file]; !ok {
			t.Errorf("%s is not in the image", file)
		}
	}
}

func TestIncompleteBundlesAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		annotations, want string
	}{
		"no annotations":        {"", "annotations.yaml"},
		"no package":            {"annotations: {}\n", "name no package"},
		"no manifests":          {"annotations: {operators.operatorframework.io.bundle.package.v1: tiny}\n", "manifests"},
		"unknown top-level key": {"annotation: {}\n", "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if test.annotations != "" {
				file := filepath.Join(dir, "metadata", "annotations.yaml")
				must(t, errors.Join(os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(test.annotations), 0o600)))
			}
			_, err := olm.BundleImage(t.Context(), shelf{}, "tiny-bundle:v1", dir)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestCatalogImageServesTheCatalogAsNonRoot(t *testing.T) {
	configs := t.TempDir()
	if _, err := olm.CatalogImage(t.Context(), shelf{}, "catalog:v1", configs); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty catalog: got %v", err)
	}
	must(t, tiny(t, "1.0.0").Write(t.Context(), configs))
	pushed := shelf{}
	_, err := olm.CatalogImage(t.Context(), pushed, "catalog:v1", configs)
	must(t, err)
	spec := pushed["catalog:v1"]
	if spec.User == "" || spec.User == "0" {
		t.Errorf("it runs as user %q", spec.User)
	}
	files := map[string]bool{}
	for _, layer := range spec.Layers {
		for file := range layer {
			files[file] = true
		}
	}
	for _, file := range []string{"/bin/opm", "/bin/grpc_health_probe", "/configs/catalog.json", "/tmp"} {
		if !files[file] {
			t.Errorf("%s is not in the image", file)
		}
	}
}
