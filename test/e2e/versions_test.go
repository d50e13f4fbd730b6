// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/test/controlplane/olm"
	"github.com/chartgate/chartgate/test/controlplane/realnode"
)

// previousBundle is the bundle of a version before this one, kept as it was, and
// previousWatches are the kinds that it served.
const (
	previousBundle  = "test/e2e/testdata/bundle-v0.0.9"
	previousWatches = "test/e2e/testdata/watches-v0.0.9.yaml"
)

// version is one version of the operator in the catalog.
type version struct {
	csv     string // name of its ClusterServiceVersion
	number  string // such as 0.1.0
	dir     string // of its bundle in the project
	watches string // of its image
	image   string // of the operator, by digest
	bundle  string // image of the bundle
}

// catalogs are the versions that the cluster's catalog offers.
type catalogs struct{ previous, current version }

// versions reads the versions there are. The operator of the previous one is
// this source under its own version: the bundle is what differs.
func (e *environment) versions() (catalogs, error) {
	c := catalogs{previous: version{watches: previousWatches}, current: version{watches: "watches.yaml"}}
	for dir, v := range map[string]*version{previousBundle: &c.previous, "bundle": &c.current} {
		csv, err := e.readCSV(dir)
		if err != nil {
			return c, err
		}
		v.dir, v.csv = dir, csv.GetName()
		if v.number, _, _ = unstructured.NestedString(csv.Object, "spec", "version"); v.number == "" {
			return c, fmt.Errorf("%s: the ClusterServiceVersion has no version", dir)
		}
	}
	return c, nil
}

func (e *environment) imageDir(number string) string { return filepath.Join(e.work, "image-"+number) }

// image runs hack/image for a version.
func (e *environment) image(ctx context.Context, number string, args ...string) error {
	args = append([]string{"run", "./hack/image", "--version", "v" + number, "--output", e.imageDir(number)}, args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.WaitDelay = e.root, 10*time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (e *environment) readCSV(dir string) (*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(e.root, dir, "manifests", "*.clusterserviceversion.yaml"))
	if err != nil || len(files) != 1 {
		return nil, errors.Join(err, fmt.Errorf("%s has %d ClusterServiceVersions, want one", dir, len(files)))
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		return nil, err
	}
	csv := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &csv.Object); err != nil {
		return nil, fmt.Errorf("%s: %w", files[0], err)
	}
	return csv, nil
}

// pushVersions pushes the operator's images and bundles, and the catalog of both.
func (e *environment) pushVersions(ctx context.Context, c catalogs) error {
	for _, v := range []*version{&c.previous, &c.current} {
		name := "chartgate/chartgate:v" + v.number
		done := step("build and push the operator %s", v.number)
		if err := e.image(ctx, v.number, "--watches", v.watches, "--name", e.cluster.Registry()+"/"+name, "--push"); err != nil {
			return err
		}
		done()
		digest, err := os.ReadFile(filepath.Join(e.imageDir(v.number), "digest"))
		if err != nil {
			return err
		}
		v.image = realnode.RegistryInside + "/chartgate/chartgate@" + strings.TrimSpace(string(digest))
		dir := filepath.Join(e.work, "bundle-"+v.number)
		err = olm.CopyBundle(filepath.Join(e.root, v.dir), dir, func(csv *unstructured.Unstructured) error { return useImage(csv, v.image) })
		if err != nil {
			return err
		}
		v.dir = dir
		if v.bundle, err = olm.BundleImage(ctx, e.cluster, "chartgate/bundle:v"+v.number, dir); err != nil {
			return err
		}
	}
	configs := filepath.Join(e.work, "catalog")
	entries := []olm.Entry{{Name: c.previous.csv}, {Name: c.current.csv, Replaces: c.previous.csv, SkipRange: "<" + c.current.number}}
	err := olm.Catalog{
		Package:  packageName,
		Channels: []olm.Channel{{Name: "stable", Entries: entries}, {Name: "candidate", Entries: entries}},
		Bundles:  []olm.Bundle{{Dir: c.previous.dir, Image: c.previous.bundle}, {Dir: c.current.dir, Image: c.current.bundle}},
	}.Write(ctx, configs)
	if err != nil {
		return err
	}
	e.catalogs = c
	e.catalogImage, err = olm.CatalogImage(ctx, e.cluster, "chartgate/catalog:latest", configs)
	return err
}

// useImage has the operator's Deployment run the image.
func useImage(csv *unstructured.Unstructured, image string) error {
	deployments, _, err := unstructured.NestedSlice(csv.Object, "spec", "install", "spec", "deployments")
	if err != nil || len(deployments) != 1 {
		return errors.Join(err, fmt.Errorf("it has %d Deployments, want one", len(deployments)))
	}
	deployment, _ := deployments[0].(map[string]any)
	path := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(deployment, path...)
	if err != nil || len(containers) != 1 {
		return errors.Join(err, fmt.Errorf("its Deployment has %d containers, want one", len(containers)))
	}
	container, _ := containers[0].(map[string]any)
	container["image"] = image
	if err := unstructured.SetNestedSlice(deployment, containers, path...); err != nil {
		return err
	}
	if err := unstructured.SetNestedSlice(csv.Object, deployments, "spec", "install", "spec", "deployments"); err != nil {
		return err
	}
	return unstructured.SetNestedSlice(csv.Object, []any{map[string]any{"name": "manager", "image": image}}, "spec", "relatedImages")
}
