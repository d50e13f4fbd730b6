// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"encoding/json"
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"sigs.k8s.io/yaml"
)

// exactNumbers reads the default values of the chart and its subcharts again,
// such that integers stay integers: Helm's loader makes every number a float,
// and 1000000 would be rendered as 1e+06.
func exactNumbers(c *chart.Chart) error {
	for _, f := range c.Raw {
		if f.Name != chartutil.ValuesfileName {
			continue
		}
		values := map[string]any{}
		if err := yaml.Unmarshal(f.Data, &values, func(d *json.Decoder) *json.Decoder {
			d.UseNumber()
			return d
		}); err != nil {
			return fmt.Errorf("%s of chart %s: %w", f.Name, c.Name(), err)
		}
		c.Values, _ = exact(values).(map[string]any)
	}
	for _, d := range c.Dependencies() {
		if err := exactNumbers(d); err != nil {
			return err
		}
	}
	return nil
}

// exact turns the numbers of a tree into int64 where they are integers that
// fit, and into float64 otherwise.
func exact(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			x[k] = exact(e)
		}
		return x
	case []any:
		for i, e := range x {
			x[i] = exact(e)
		}
		return x
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, err := x.Float64()
		if err != nil {
			return x.String()
		}
		return f
	default:
		return v
	}
}
