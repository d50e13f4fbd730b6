// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package olm works on what the Operator Lifecycle Manager installs an operator
// from: bundles (a version of the operator) and catalogs (what there is to
// install, and what to upgrade to).
package olm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/hack/ociimage"
)

// A Bundle is a folder with the manifests and metadata of one version of an operator.
type Bundle struct {
	// Dir is the folder.
	Dir string
	// Name is that of the ClusterServiceVersion, such as chartgate.v0.1.0.
	Name string
	// Version without a v.
	Version string
	// Package that the bundle is a version of.
	Package string
	// SkipRange says which versions may be upgraded to this one directly.
	SkipRange string
	// Annotations are the bundle's own, which its image has as labels.
	Annotations map[string]string

	csvFile string
	csv     unstructured.Unstructured
}

// Read reads a bundle from its folder.
func Read(dir string) (*Bundle, error) {
	b := &Bundle{Dir: dir}
	var metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := readYAML(filepath.Join(dir, "metadata", "annotations.yaml"), &metadata); err != nil {
		return nil, fmt.Errorf("bundle %s: %w", dir, err)
	}
	b.Annotations = metadata.Annotations
	b.Package = b.Annotations["operators.operatorframework.io.bundle.package.v1"]
	files, err := filepath.Glob(filepath.Join(dir, "manifests", "*.clusterserviceversion.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) != 1 || b.Package == "" {
		return nil, fmt.Errorf("%s is not a bundle: it needs one file manifests/*.clusterserviceversion.yaml and a package in metadata/annotations.yaml", dir)
	}
	b.csvFile = files[0]
	if err := readYAML(b.csvFile, &b.csv.Object); err != nil {
		return nil, fmt.Errorf("bundle %s: %w", dir, err)
	}
	b.Name = b.csv.GetName()
	b.SkipRange = b.csv.GetAnnotations()["olm.skipRange"]
	if b.Version, _, err = unstructured.NestedString(b.csv.Object, "spec", "version"); err != nil || b.Version == "" {
		return nil, fmt.Errorf("bundle %s: the ClusterServiceVersion has no spec.version", dir)
	}
	return b, nil
}

// CSV is the bundle's ClusterServiceVersion.
func (b *Bundle) CSV() *unstructured.Unstructured { return &b.csv }

// Write writes what was changed back to the bundle's folder.
func (b *Bundle) Write() error {
	content, err := yaml.Marshal(b.csv.Object)
	if err != nil {
		return fmt.Errorf("bundle %s: %w", b.Dir, err)
	}
	return os.WriteFile(b.csvFile, content, 0o644) //nolint:gosec // to be read by anybody
}

// SetImage makes the bundle deploy the operator's image of this reference. A
// reference by digest is listed among the related images, which mirrors copy.
func (b *Bundle) SetImage(image string) error {
	annotate(&b.csv, "containerImage", image)
	err := b.eachContainer(func(container map[string]any) { container["image"] = image })
	if err != nil {
		return err
	}
	if !strings.Contains(image, "@sha256:") {
		unstructured.RemoveNestedField(b.csv.Object, "spec", "relatedImages")
		return nil
	}
	return unstructured.SetNestedSlice(b.csv.Object, []any{map[string]any{"name": "manager", "image": image}}, "spec", "relatedImages")
}

// eachContainer calls change for every container of the bundle's Deployments.
func (b *Bundle) eachContainer(change func(container map[string]any)) error {
	deployments, found, err := unstructured.NestedSlice(b.csv.Object, "spec", "install", "spec", "deployments")
	if err != nil || !found || len(deployments) == 0 {
		return fmt.Errorf("bundle %s: the ClusterServiceVersion has no Deployment", b.Dir)
	}
	for _, d := range deployments {
		deployment, _ := d.(map[string]any)
		path := []string{"spec", "template", "spec", "containers"}
		containers, found, err := unstructured.NestedSlice(deployment, path...)
		if err != nil || !found {
			return fmt.Errorf("bundle %s: a Deployment of the ClusterServiceVersion has no containers", b.Dir)
		}
		for _, c := range containers {
			if container, ok := c.(map[string]any); ok {
				change(container)
			}
		}
		if err := unstructured.SetNestedSlice(deployment, containers, path...); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(b.csv.Object, deployments, "spec", "install", "spec", "deployments")
}

// CRDs returns the bundle's CustomResourceDefinitions by their names.
func (b *Bundle) CRDs() (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(b.Dir, "manifests", "*.yaml"))
	if err != nil {
		return nil, err
	}
	out := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := readYAML(file, crd); err != nil {
			return nil, fmt.Errorf("bundle %s: %w", b.Dir, err)
		}
		if crd.Kind == "CustomResourceDefinition" {
			out[crd.Name] = crd
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("bundle %s has no CustomResourceDefinition", b.Dir)
	}
	return out, nil
}

// Image makes the bundle's image: its folders, and its annotations as labels.
// OLM unpacks it on any architecture.
func (b *Bundle) Image() (v1.Image, error) {
	layer := ociimage.Layer{}
	for _, folder := range []string{"manifests", "metadata", filepath.Join("tests", "scorecard")} {
		err := layer.Add("/"+filepath.ToSlash(folder), filepath.Join(b.Dir, folder))
		if err != nil && (folder == "manifests" || folder == "metadata" || !errors.Is(err, fs.ErrNotExist)) {
			return nil, fmt.Errorf("bundle %s: %w", b.Dir, err)
		}
	}
	// One digest wherever it is built: it holds nothing that runs.
	return ociimage.Build(ociimage.Spec{Architecture: "amd64", Labels: b.Annotations, Layers: []ociimage.Layer{layer}})
}

// Copy copies a bundle to another folder, which must not exist.
func (b *Bundle) Copy(dir string) (*Bundle, error) {
	if err := os.CopyFS(dir, os.DirFS(b.Dir)); err != nil {
		return nil, fmt.Errorf("copy bundle %s to %s: %w", b.Dir, dir, err)
	}
	return Read(dir)
}

func annotate(object *unstructured.Unstructured, key, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}

func readYAML(file string, into any) error {
	content, err := os.ReadFile(file) //nolint:gosec // the folder that the caller names
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
