// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// SetScorecardImages changes the images of the bundle's scorecard tests, and writes that at once.
func (b *Bundle) SetScorecardImages(change func(image string) string) error {
	file := filepath.Join(b.Dir, "tests", "scorecard", "config.yaml")
	var config map[string]any
	if err := readYAML(file, &config); err != nil {
		return fmt.Errorf("bundle %s: %w", b.Dir, err)
	}
	stages, _ := config["stages"].([]any)
	for _, s := range stages {
		stage, _ := s.(map[string]any)
		tests, _ := stage["tests"].([]any)
		for _, t := range tests {
			test, _ := t.(map[string]any)
			image, ok := test["image"].(string)
			if !ok {
				return fmt.Errorf("%s: a test has no image", file)
			}
			test["image"] = change(image)
		}
	}
	content, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, content, 0o644) //nolint:gosec // to be read by anybody
}
