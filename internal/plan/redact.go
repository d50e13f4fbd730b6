// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/base64"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Markers that stand for what a Secret holds. They tell nothing of its length.
const (
	// Redacted stands for a value.
	Redacted = "<redacted>"
	// RedactedChanged stands for a value of a Secret that the change replaces by another.
	RedactedChanged = "<redacted, changed>"
)

// secretFields hold the values of a Secret.
var secretFields = []string{"data", "stringData"}

// redacted returns both bodies with what Secrets hold taken out; nil where there is none.
func (p pair) redacted(secrets *needles) (before, after map[string]any) {
	var was, is map[string]any
	if p.before != nil {
		was = p.before.body
	}
	if p.after != nil {
		is = p.after.body
	}
	if was != nil {
		before, _ = clean(was, nil, secrets).(map[string]any)
	}
	if is != nil {
		after, _ = clean(is, was, secrets).(map[string]any)
	}
	return before, after
}

// clean returns a copy of the value without what Secrets hold. was is what is at
// the same place before the change; a value of a Secret that differs from it is marked.
func clean(value, was any, secrets *needles) any {
	switch v := value.(type) {
	case map[string]any:
		return cleanMap(v, was, secrets)
	case []any:
		old, _ := was.([]any)
		out := make([]any, 0, len(v))
		for i, item := range v {
			var before any
			if i < len(old) {
				before = old[i]
			}
			out = append(out, clean(item, before, secrets))
		}
		return out
	case string:
		return secrets.redact(v)
	case nil, bool:
		return v
	default:
		if secrets.holds(fmt.Sprint(v)) {
			return Redacted
		}
		return v
	}
}

func cleanMap(v map[string]any, was any, secrets *needles) map[string]any {
	old, _ := was.(map[string]any)
	secret := isSecret(v)
	out := make(map[string]any, len(v))
	for _, key := range slices.Sorted(maps.Keys(v)) {
		shown := secrets.redactKey(key)
		switch {
		case secret && slices.Contains(secretFields, key):
			out[shown] = cover(v[key], old[key], secrets)
		case key == "apiVersion" || key == "kind":
			out[shown] = v[key]
		default:
			out[shown] = clean(v[key], old[key], secrets)
		}
	}
	return out
}

// isSecret tells whether the map is a Secret, wherever it was found.
func isSecret(v map[string]any) bool { return v["kind"] == "Secret" }

// cover puts markers in the place of a Secret's values. Keys are shown.
func cover(value, was any, secrets *needles) any {
	values, ok := value.(map[string]any)
	if !ok {
		if value == nil {
			return nil
		}
		return Redacted
	}
	old, _ := was.(map[string]any)
	out := make(map[string]any, len(values))
	for key, v := range values {
		before, known := old[key]
		out[secrets.redactKey(key)] = Redacted
		if known && !reflect.DeepEqual(before, v) {
			out[secrets.redactKey(key)] = RedactedChanged
		}
	}
	return out
}

// collect finds what the Secrets among the objects hold, and adds other secrets.
func collect(others []string, lists ...[]object) *needles {
	found := newNeedles()
	for _, secret := range others {
		found.add(secret)
	}
	for _, objects := range lists {
		for _, o := range objects {
			found.search(o.body)
		}
	}
	found.done()
	return found
}

// search takes up what Secrets hold anywhere in the value.
func (n *needles) search(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			if isSecret(v) && slices.Contains(secretFields, key) {
				n.addAll(item, key == "data")
				continue
			}
			n.search(item)
		}
	case []any:
		for _, item := range v {
			n.search(item)
		}
	}
}

// addAll takes up the values of a Secret's field.
func (n *needles) addAll(field any, encoded bool) {
	switch v := field.(type) {
	case map[string]any:
		for _, item := range v {
			n.addAll(item, encoded)
		}
	case []any:
		for _, item := range v {
			n.addAll(item, encoded)
		}
	case nil:
	default:
		s := fmt.Sprint(v)
		n.add(s)
		if encoded {
			if plain, err := base64.StdEncoding.DecodeString(s); err == nil {
				n.add(string(plain))
			}
		}
	}
}
