// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"helm.sh/helm/v3/pkg/chart"
	helmrelease "helm.sh/helm/v3/pkg/release"
)

// secretsAnnotation of the chart in a stored release names the values that came
// from Secrets, as Change.Secret does, so that they are known as such when the
// next change is shown.
const secretsAnnotation = "chartgate.dev/secret-values" //nolint:gosec // a name, no credentials

// withSecrets returns the chart as it is stored: with the names of the values that came from Secrets.
func withSecrets(c *chart.Chart, paths [][]string) *chart.Chart {
	if c == nil || c.Metadata == nil || len(paths) == 0 {
		return c
	}
	names, err := json.Marshal(paths)
	if err != nil {
		return c
	}
	metadata := *c.Metadata
	metadata.Annotations = maps.Clone(metadata.Annotations)
	if metadata.Annotations == nil {
		metadata.Annotations = map[string]string{}
	}
	metadata.Annotations[secretsAnnotation] = string(names)
	out := *c
	out.Metadata = &metadata
	return &out
}

// secretsOf returns which values of a stored release came from Secrets.
func secretsOf(rel *helmrelease.Release) [][]string {
	if rel.Chart == nil || rel.Chart.Metadata == nil {
		return nil
	}
	var paths [][]string
	if json.Unmarshal([]byte(rel.Chart.Metadata.Annotations[secretsAnnotation]), &paths) != nil {
		return nil
	}
	return paths
}

// secretsAt returns the texts and numbers that stand at or below the paths.
func secretsAt(values map[string]any, paths [][]string) []string {
	var out []string
	for _, path := range paths {
		var at any = values
		for _, key := range path {
			below, _ := at.(map[string]any)
			at = below[key]
		}
		out = append(out, scalars(at)...)
	}
	return out
}

// scalars returns the texts and numbers in a tree. What is true, false or null is no secret.
func scalars(value any) []string {
	switch v := value.(type) {
	case nil, bool:
		return nil
	case map[string]any:
		var out []string
		for _, item := range v {
			out = append(out, scalars(item)...)
		}
		return out
	case []any:
		var out []string
		for _, item := range v {
			out = append(out, scalars(item)...)
		}
		return out
	case float64: // every number of a stored release is one
		return []string{fmt.Sprint(v), strconv.FormatFloat(v, 'f', -1, 64)}
	default:
		return []string{fmt.Sprint(v)}
	}
}
