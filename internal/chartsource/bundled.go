// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Bundled is a chart that comes with the operator: the same one for every resource.
type Bundled struct{ chart *Chart }

var _ Source = (*Bundled)(nil)

// LoadBundled loads the chart from a folder or archive, and works out its
// digest. A path that holds no chart that can be released is an error.
func LoadBundled(path string, digest func(*chart.Chart) string) (*Bundled, error) {
	c, err := loader.Load(path)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", path, err)
	}
	if missing := missingDependencies(c); len(missing) > 0 {
		return nil, fmt.Errorf("chart %s: dependencies %v are declared in Chart.yaml and missing in charts/; run 'helm dependency build %s'", path, missing, path)
	}
	if err := prepare(c); err != nil {
		return nil, fmt.Errorf("chart %s: %w", path, err)
	}
	return &Bundled{chart: &Chart{Chart: c, Digest: digest(c)}}, nil
}

// Chart returns the loaded chart.
func (b *Bundled) Chart() *Chart { return b.chart }

// Resolve implements Source.
func (b *Bundled) Resolve(context.Context, *unstructured.Unstructured, Secrets) (*Chart, error) {
	return b.chart, nil
}

func missingDependencies(c *chart.Chart) []string {
	var missing []string
	for _, dep := range c.Metadata.Dependencies {
		if !slices.ContainsFunc(c.Dependencies(), func(d *chart.Chart) bool { return d.Name() == dep.Name }) {
			missing = append(missing, dep.Name)
		}
	}
	return missing
}

// ReservedKeys returns the top-level keys of the chart's default values and
// schema that are among the reserved ones.
func ReservedKeys(c *chart.Chart, reserved ...string) []string {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(c.Schema, &schema) // a schema that can't be read is refused when values are checked by it
	var clash []string
	for _, key := range reserved {
		_, inValues := c.Values[key]
		_, inSchema := schema.Properties[key]
		if inValues || inSchema {
			clash = append(clash, key)
		}
	}
	return clash
}
