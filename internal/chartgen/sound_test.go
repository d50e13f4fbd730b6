// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"encoding/json"
	"io"
	"iter"
	"log"
	"math/rand/v2"
	"os"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// dice makes random schemas and values that have a fair chance to fit.
type dice struct{ *rand.Rand }

func (d dice) chance(percent int) bool { return d.IntN(100) < percent }
func (d dice) pick(options ...any) any { return options[d.IntN(len(options))] }
func (d dice) name() string            { return d.pick("a", "b", "c").(string) }
func (d dice) names() []any            { return []any{d.pick("a", "b"), "c"}[d.IntN(2):] }
func (d dice) scalar() any             { return d.pick("x", "y", "", 0, 1, 2, 10, true, false) }
func (d dice) some(n int) []any        { return make([]any, 1+d.IntN(n)) }
func (d dice) fill(l []any, f func() any) []any {
	for i := range l {
		l[i] = f()
	}
	return l
}

func (d dice) schema(depth int) any {
	s := map[string]any{}
	if d.chance(80) {
		s["type"] = d.pick("string", "integer", "boolean", "number", "array", "object", "object", "object",
			[]any{"string", "integer"}, []any{"string", "null"}, []any{"object", "null"}, []any{"string", "object"})
	}
	for keyword, value := range inOrder(map[string]func() any{
		"enum":             func() any { return d.fill(d.some(3), d.scalar) },
		"const":            d.scalar,
		"minimum":          func() any { return d.IntN(3) },
		"exclusiveMaximum": func() any { return d.IntN(12) },
		"multipleOf":       func() any { return 1 + d.IntN(3) },
		"minLength":        func() any { return d.IntN(2) },
		"pattern":          func() any { return d.pick("x", "^y?$") },
		"minItems":         func() any { return d.IntN(2) },
		"uniqueItems":      func() any { return true },
		"minProperties":    func() any { return d.IntN(2) },
		"maxProperties":    func() any { return 1 + d.IntN(3) },
		"required":         func() any { return d.names() },
	}) {
		if d.chance(7) {
			s[keyword] = value()
		}
	}
	if s["type"] == "object" && d.chance(20) {
		s["required"] = d.names()
	}
	if depth <= 0 {
		return s
	}
	below := func() any { return d.schema(depth - 1) }
	for keyword, value := range inOrder(map[string]func() any{
		"items":             below,
		"not":               below,
		"contains":          below,
		"propertyNames":     below,
		"allOf":             func() any { return d.fill(d.some(2), below) },
		"anyOf":             func() any { return d.fill(d.some(3), below) },
		"oneOf":             func() any { return d.fill(d.some(3), below) },
		"$ref":              func() any { return d.pick("#/$defs/a", "#/$defs/b") },
		"patternProperties": func() any { return map[string]any{"^a": below()} },
	}) {
		if d.chance(6) {
			s[keyword] = value()
		}
	}
	if d.chance(6) {
		s["if"], s["then"], s["else"] = below(), below(), below()
	}
	if s["type"] == nil {
		delete(s, "items") // or it is read as a list
	}
	if s["type"] == "object" {
		properties := map[string]any{}
		for range d.IntN(4) {
			properties[d.name()] = below()
		}
		s["properties"] = properties
		if d.chance(50) {
			s["additionalProperties"] = d.pick(false, false, below())
		}
	}
	return s
}

func (d dice) value(depth int) any {
	switch n := d.IntN(10); {
	case n < 1:
		return nil
	case n < 6 || depth <= 0:
		return d.scalar()
	case n < 7:
		return d.fill(make([]any, d.IntN(3)), func() any { return d.value(depth - 1) })
	default:
		return d.object(depth)
	}
}

func (d dice) object(depth int) map[string]any {
	out := map[string]any{}
	for range d.IntN(4) {
		out[d.name()] = d.value(depth - 1)
	}
	return out
}

// What Helm takes with the chart's own schema, the CRD takes; and what it then
// stores, Helm still takes. Whatever the schema, Kubernetes takes the CRD.
func TestNothingThatHelmTakesIsRefused(t *testing.T) {
	log.SetOutput(io.Discard) // Helm's warnings
	defer log.SetOutput(os.Stderr)
	rounds := 600
	if testing.Short() {
		rounds = 200
	}
	taken := 0
	for seed := range rounds {
		d := dice{rand.New(rand.NewPCG(uint64(seed), 1))}
		document := map[string]any{"type": "object", "properties": map[string]any{"a": d.schema(2), "b": d.schema(2)}}
		if d.chance(50) {
			document = d.schema(3).(map[string]any)
			document["type"] = "object"
		}
		document["$defs"] = map[string]any{"a": d.schema(1), "b": d.schema(0)}
		if d.chance(50) {
			document["$schema"] = "http://json-schema.org/draft-07/schema#"
		}
		defaults := map[string]any{}
		if d.chance(60) {
			defaults = d.object(2)
		}
		chrt := makeChart(encode(document), encode(defaults))
		if helmTakes(chrt, nil) != nil && d.chance(80) {
			chrt = makeChart(encode(document), "{}") // these defaults fit nothing
		}
		crd, _, err := CRD(chrt, Options{Kind: "Thing"})
		if err != nil {
			if helmTakes(chrt, nil) == nil {
				t.Errorf("seed %d: %v\nschema %s", seed, err, encode(document))
			}
			continue
		}
		server := newServer(t, crd)
		for range 15 {
			spec := d.object(2)
			if helmTakes(chrt, spec) != nil {
				continue
			}
			taken++
			stored, err := server.admit(encode(spec))
			if err != nil {
				t.Errorf("seed %d: Helm takes what the CRD refuses: %v\nspec    %s\nvalues  %s\nschema  %s\nCRD     %s",
					seed, err, encode(spec), encode(chrt.Values), encode(document), compact(t, specOf(crd)))
				break
			}
			if helmTakes(chrt, nil) != nil {
				continue // the chart's own values don't fit its schema
			}
			if err := helmTakes(chrt, stored); err != nil {
				t.Errorf("seed %d: Helm refuses what was stored: %v\nspec    %s\nstored  %s\nvalues  %s\nschema  %s\nCRD     %s",
					seed, err, encode(spec), encode(stored), encode(chrt.Values), encode(document), compact(t, specOf(crd)))
				break
			}
		}
		if t.Failed() && seed > 50 {
			break
		}
	}
	t.Logf("%d specs that Helm takes", taken)
	if taken < rounds {
		t.Errorf("only %d specs fit their schema: the test shows too little", taken)
	}
}

// inOrder ranges over a map in the same order each time.
func inOrder[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range sortedKeys(m) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

func helmTakes(chrt *chart.Chart, spec map[string]any) error {
	var plain map[string]any
	if err := json.Unmarshal([]byte(encode(spec)), &plain); err != nil {
		return err
	}
	values, err := chartutil.CoalesceValues(chrt, plain)
	if err != nil {
		return err
	}
	return chartutil.ValidateAgainstSchema(chrt, values)
}
