// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"encoding/json"

	"sigs.k8s.io/yaml"
)

// ParseValues reads chart values in YAML. Integers stay integers: read as
// floats, 1000000 would be rendered as 1e+06. An empty text gives no values.
func ParseValues(text []byte) (map[string]any, error) {
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values, func(d *json.Decoder) *json.Decoder {
		d.UseNumber()
		return d
	}); err != nil {
		return nil, err
	}
	out, _ := exact(values).(map[string]any)
	return out, nil
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
