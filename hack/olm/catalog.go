// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Catalog says what a file-based catalog offers of one package.
type Catalog struct {
	// Package is its name.
	Package string
	// DefaultChannel is what a Subscription without a channel gets.
	DefaultChannel string
	// Description and Icon (an SVG) are shown where packages are listed.
	Description string
	Icon        []byte
	// Versions that there are, in any order.
	Versions []Version
}

// A Version is one bundle in a catalog.
type Version struct {
	// Bundle to read what the catalog tells of it from: a folder, or the reference of its image.
	Bundle string
	// Image is the reference that OLM pulls. It defaults to Bundle.
	Image string
	// Channels that it is in. They default to those of its version: see Channels.
	Channels []string
	// Replaces names the bundle that it upgrades. It defaults to the version before, in each channel.
	Replaces string
}

// rendered is a bundle as a catalog has it.
type rendered struct {
	Version
	name      string
	version   *semver.Version
	skipRange string
	blob      map[string]any
}

// Write writes the catalog to a folder, as one file, and has opm check it.
// The folder holds nothing else afterwards.
func (c Catalog) Write(ctx context.Context, opm, dir string) error {
	bundles := make([]rendered, 0, len(c.Versions))
	for _, version := range c.Versions {
		bundle, err := render(ctx, opm, c.Package, version)
		if err != nil {
			return err
		}
		bundles = append(bundles, bundle)
	}
	slices.SortFunc(bundles, func(a, b rendered) int { return a.version.Compare(b.version) })

	blobs := []map[string]any{c.packageBlob()}
	channels, err := c.channels(bundles)
	if err != nil {
		return err
	}
	blobs = append(blobs, channels...)
	for _, bundle := range bundles {
		blobs = append(blobs, bundle.blob)
	}
	content, err := migrate(ctx, opm, blobs)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	folder := filepath.Join(dir, c.Package)
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // to be read by anybody
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "catalog.yaml"), content, 0o644); err != nil { //nolint:gosec // to be read by anybody
		return err
	}
	_, err = run(ctx, opm, "validate", dir)
	return err
}

// migrateLevel makes catalogs hold what a cluster asks for, not whole manifests.
// opm does that only to bundles whose image is known.
const migrateLevel = "bundle-object-to-csv-metadata"

// migrate has opm write a catalog in its newest form.
func migrate(ctx context.Context, opm string, blobs []map[string]any) ([]byte, error) {
	dir, err := os.MkdirTemp("", "chartgate-catalog-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var out bytes.Buffer
	for _, blob := range blobs {
		content, err := json.Marshal(blob)
		if err != nil {
			return nil, err
		}
		out.Write(content)
	}
	if err := os.WriteFile(filepath.Join(dir, "catalog.json"), out.Bytes(), 0o600); err != nil {
		return nil, err
	}
	return run(ctx, opm, "render", dir, "--output", "yaml", "--migrate-level", migrateLevel)
}

func (c Catalog) packageBlob() map[string]any {
	blob := map[string]any{
		"schema": "olm.package", "name": c.Package,
		"defaultChannel": c.DefaultChannel, "description": c.Description,
	}
	if len(c.Icon) > 0 {
		blob["icon"] = map[string]any{"base64data": c.Icon, "mediatype": "image/svg+xml"}
	}
	return blob
}

// channels makes the channels of bundles in the order of their versions.
func (c Catalog) channels(bundles []rendered) ([]map[string]any, error) {
	entries := map[string][]any{}
	heads := map[string]string{}
	for _, bundle := range bundles {
		for _, channel := range bundle.Channels {
			entry := map[string]any{"name": bundle.name}
			if replaces := cmp.Or(bundle.Replaces, heads[channel]); replaces != "" {
				entry["replaces"] = replaces
			}
			if bundle.skipRange != "" {
				entry["skipRange"] = bundle.skipRange
			}
			entries[channel] = append(entries[channel], entry)
			heads[channel] = bundle.name
		}
	}
	if entries[c.DefaultChannel] == nil {
		return nil, fmt.Errorf("catalog: the default channel %q has no version; there are the channels %v", c.DefaultChannel, slices.Sorted(maps.Keys(entries)))
	}
	var out []map[string]any
	for _, channel := range sortedKeys(entries) {
		out = append(out, map[string]any{"schema": "olm.channel", "package": c.Package, "name": channel, "entries": entries[channel]})
	}
	return out, nil
}

// render has opm make the catalog's entry of a bundle.
func render(ctx context.Context, opm, pkg string, version Version) (rendered, error) {
	out, err := run(ctx, opm, "render", version.Bundle, "--output", "json", "--migrate-level", migrateLevel)
	if err != nil {
		return rendered{}, err
	}
	r := rendered{Version: version}
	if err := json.Unmarshal(out, &r.blob); err != nil {
		return rendered{}, fmt.Errorf("opm render %s: %w", version.Bundle, err)
	}
	var meta struct {
		Name, Package string
		Properties    []struct {
			Type  string
			Value json.RawMessage
		}
	}
	if err := json.Unmarshal(out, &meta); err != nil {
		return rendered{}, fmt.Errorf("opm render %s: %w", version.Bundle, err)
	}
	if meta.Package != pkg {
		return rendered{}, fmt.Errorf("bundle %s is of package %q, and the catalog of %q", version.Bundle, meta.Package, pkg)
	}
	r.name = meta.Name
	for _, property := range meta.Properties {
		switch property.Type {
		case "olm.package":
			var value struct{ Version string }
			if err := json.Unmarshal(property.Value, &value); err != nil {
				return rendered{}, fmt.Errorf("bundle %s: %w", version.Bundle, err)
			}
			if r.version, err = semver.StrictNewVersion(value.Version); err != nil {
				return rendered{}, fmt.Errorf("bundle %s: version %q: %w", version.Bundle, value.Version, err)
			}
		case "olm.csv.metadata": // of an image
			var value struct{ Annotations map[string]string }
			if err := json.Unmarshal(property.Value, &value); err != nil {
				return rendered{}, fmt.Errorf("bundle %s: %w", version.Bundle, err)
			}
			r.skipRange = value.Annotations["olm.skipRange"]
		case "olm.bundle.object": // of a folder
			var value struct{ Data []byte }
			if err := json.Unmarshal(property.Value, &value); err != nil {
				return rendered{}, fmt.Errorf("bundle %s: %w", version.Bundle, err)
			}
			var object metav1.PartialObjectMetadata
			if err := json.Unmarshal(value.Data, &object); err != nil {
				return rendered{}, fmt.Errorf("bundle %s: %w", version.Bundle, err)
			}
			if object.Kind == "ClusterServiceVersion" {
				r.skipRange = object.Annotations["olm.skipRange"]
			}
		}
	}
	if r.version == nil {
		return rendered{}, fmt.Errorf("bundle %s has no version", version.Bundle)
	}
	if len(r.Channels) == 0 {
		if r.Channels, err = Channels(r.version.String()); err != nil {
			return rendered{}, fmt.Errorf("bundle %s: %w", version.Bundle, err)
		}
	}
	image := cmp.Or(version.Image, version.Bundle)
	r.blob["image"] = image
	r.blob["relatedImages"] = relatedImages(r.blob["relatedImages"], image)
	return r, nil
}

// relatedImages puts the bundle's own image, which opm doesn't know when it
// reads a folder, into the list of images that a mirror has to copy.
func relatedImages(list any, image string) []any {
	out := []any{map[string]any{"name": "", "image": image}}
	images, _ := list.([]any)
	for _, related := range images {
		entry, _ := related.(map[string]any)
		if other, _ := entry["image"].(string); other != "" && other != image {
			out = append(out, related)
		}
	}
	return out
}

func run(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // a program of the Makefile's
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return nil, fmt.Errorf("%s %s: %w", filepath.Base(program), strings.Join(args, " "), err)
	}
	return out, nil
}
