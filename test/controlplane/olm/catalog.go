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
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/test/controlplane"
)

// A Catalog offers one package.
type Catalog struct {
	Package string
	// DefaultChannel defaults to the first one.
	DefaultChannel string
	Channels       []Channel
	Bundles        []Bundle
}

// A Channel is a row of upgrades.
type Channel struct {
	Name    string  `json:"name"`
	Entries []Entry `json:"entries"`
}

// An Entry is a version in a channel, by the name of its ClusterServiceVersion.
type Entry struct {
	Name      string   `json:"name"`
	Replaces  string   `json:"replaces,omitempty"`
	Skips     []string `json:"skips,omitempty"`
	SkipRange string   `json:"skipRange,omitempty"`
}

// A Bundle is a version of an operator.
type Bundle struct {
	// Dir is the bundle's folder.
	Dir string
	// Image is where OLM gets the bundle from. Without it the catalog holds
	// the bundle's objects, and OLM needs no Job to get them.
	Image string
}

// Write writes the catalog's file into a folder and has opm check it.
func (c Catalog) Write(ctx context.Context, dir string) error {
	if len(c.Channels) == 0 {
		return fmt.Errorf("the catalog of %s has no channel", c.Package)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the catalog's folder: %w", err)
	}
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	blobs := []any{map[string]any{
		"schema":         "olm.package",
		"name":           c.Package,
		"defaultChannel": cmp.Or(c.DefaultChannel, c.Channels[0].Name),
	}}
	for _, channel := range c.Channels {
		blobs = append(blobs, struct {
			Schema  string `json:"schema"`
			Package string `json:"package"`
			Channel
		}{"olm.channel", c.Package, channel})
	}
	for _, blob := range blobs {
		if err := encoder.Encode(blob); err != nil {
			return fmt.Errorf("write the catalog of %s: %w", c.Package, err)
		}
	}
	for _, bundle := range c.Bundles {
		arguments := []string{"render", bundle.Dir, "--output=json"}
		if bundle.Image != "" {
			arguments = append(arguments, "--alpha-image-ref-template="+bundle.Image,
				"--migrate-level=bundle-object-to-csv-metadata")
		}
		rendered, err := runOPM(ctx, arguments...)
		if err != nil {
			return fmt.Errorf("render the bundle %s: %w", bundle.Dir, err)
		}
		content.Write(rendered)
	}
	if err := os.WriteFile(filepath.Join(dir, "catalog.json"), content.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the catalog of %s: %w", c.Package, err)
	}
	if _, err := runOPM(ctx, "validate", dir); err != nil {
		return fmt.Errorf("check the catalog of %s: %w", c.Package, err)
	}
	return nil
}

// runOPM runs opm and returns its standard output.
func runOPM(ctx context.Context, arguments ...string) ([]byte, error) {
	programs, err := controlplane.Resolve(ctx, os.Stderr, controlplane.OPM)
	if err != nil {
		return nil, fmt.Errorf("prepare opm: %w", err)
	}
	command := exec.CommandContext(ctx, programs[controlplane.OPM], arguments...)
	command.WaitDelay = 10 * time.Second
	var output, problems bytes.Buffer
	command.Stdout, command.Stderr = &output, &problems
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("opm %s: %w\n%s", strings.Join(arguments, " "), err, problems.String())
	}
	return output.Bytes(), nil
}

// CopyBundle copies a bundle's folder and changes its ClusterServiceVersion, to
// make another version of an operator, or one with other install modes.
func CopyBundle(from, to string, edit func(csv *unstructured.Unstructured) error) error {
	edited := false
	err := filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if filepath.Dir(relative) == "manifests" {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(content, &object.Object); err != nil {
				return fmt.Errorf("read %s: %w", file, err)
			}
			if object.GetKind() == csvKind.Kind {
				edited = true
				if err := edit(object); err != nil {
					return fmt.Errorf("edit %s: %w", file, err)
				}
				if content, err = yaml.Marshal(object.Object); err != nil {
					return fmt.Errorf("write %s: %w", target, err)
				}
			}
		}
		return os.WriteFile(target, content, 0o644)
	})
	if err == nil && !edited {
		err = errors.New("it has no ClusterServiceVersion")
	}
	if err != nil {
		return fmt.Errorf("copy the bundle %s: %w", from, err)
	}
	return nil
}
