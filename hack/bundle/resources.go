// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/hack/olm"
)

// object finds where a template makes an object whose kind is written out.
var object = regexp.MustCompile(`(?m)^apiVersion: *"?([\w./-]+)"?\s*\nkind: *"?(\w+)"?\s*$`)

// chartResources lists what the charts of watches.yaml make, by the kind that
// each is released for. Consoles show these objects with a resource.
func chartResources(watches string) (map[string][]olm.Resource, error) {
	content, err := os.ReadFile(watches) //nolint:gosec // the file that the caller names
	if err != nil {
		return nil, err
	}
	var entries []struct {
		Kind  string `json:"kind"`
		Chart string `json:"chart"`
	}
	if err := yaml.Unmarshal(content, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w", watches, err)
	}
	out := map[string][]olm.Resource{}
	for _, entry := range entries {
		made := []olm.Resource{{Kind: "Secret", Version: "v1"}} // Helm's own, at least
		if entry.Chart != "" {
			templates, err := templateResources(filepath.Join(filepath.Dir(watches), entry.Chart, "templates"))
			if err != nil {
				return nil, fmt.Errorf("chart of %s: %w", entry.Kind, err)
			}
			made = append(made, templates...)
		}
		slices.SortFunc(made, func(a, b olm.Resource) int { return strings.Compare(a.Kind+"/"+a.Version, b.Kind+"/"+b.Version) })
		out[entry.Kind] = slices.Compact(made)
	}
	return out, nil
}

func templateResources(dir string) ([]olm.Resource, error) {
	var out []olm.Resource
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(file) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(file) //nolint:gosec // a template of the project's own charts
		if err != nil {
			return err
		}
		for _, match := range object.FindAllStringSubmatch(string(content), -1) {
			out = append(out, olm.Resource{Kind: match[2], Version: path.Base(match[1])})
		}
		return nil
	})
	return out, err
}
