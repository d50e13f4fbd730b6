// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Fields that others own. A release says what its objects are, but some fields
// are somebody else's by design, and an operator that puts them back fights.
// docs/drift.md states these rules for users:
//
//   - spec.replicas that an autoscaler set last (through the scale subresource) keeps its live value;
//   - what the manifest leaves empty ("" or null, or empty data, labels or annotations) and somebody
//     filled in stays, such as a webhook's caBundle or the keys of a TLS Secret;
//   - the rules of an aggregated ClusterRole are the API server's;
//   - the claims' templates of a StatefulSet, which nobody can change, stay as they are;
//   - what the manifest doesn't mention (injected containers, defaulted fields) is never touched.

// spare takes fields that others own out of original and target, as far as live
// has them filled. The arguments are not modified.
func spare(original, target, live *unstructured.Unstructured) (*unstructured.Unstructured, *unstructured.Unstructured) {
	original, target = original.DeepCopy(), target.DeepCopy()
	leaveEmpty(original.Object, target.Object, live.Object)
	if _, ok := target.Object["aggregationRule"]; ok && target.GetKind() == "ClusterRole" {
		delete(original.Object, "rules")
		delete(target.Object, "rules")
	}
	if isStatefulSet(target) && sameClaims(original, target) {
		withoutClaims(original, target)
	}
	if autoscaled(live) {
		unstructured.RemoveNestedField(original.Object, "spec", "replicas")
		unstructured.RemoveNestedField(target.Object, "spec", "replicas")
	}
	return original, target
}

// openMaps are the maps that a manifest may leave empty for others to fill.
var openMaps = map[string]bool{"data": true, "stringData": true, "binaryData": true, "labels": true, "annotations": true}

// leaveEmpty removes keys that original and target leave empty and live does not.
func leaveEmpty(original, target, live map[string]any) {
	for key, want := range target {
		have, was := live[key], original[key]
		if empty(key, want) && empty(key, was) {
			if want == nil || !empty(key, have) {
				delete(target, key)
				delete(original, key)
			}
			continue
		}
		switch w := want.(type) {
		case map[string]any:
			h, _ := have.(map[string]any)
			o, _ := was.(map[string]any)
			if h != nil && o != nil {
				leaveEmpty(o, w, h)
			}
		case []any:
			leaveEmptyItems(was, w, have)
		}
	}
}

// leaveEmptyItems goes into the items of lists, paired by their name.
func leaveEmptyItems(original any, target []any, live any) {
	was, now := byName(original), byName(live)
	for _, item := range target {
		w, ok := item.(map[string]any)
		if !ok {
			return
		}
		name, _ := w["name"].(string)
		if o, h := was[name], now[name]; name != "" && o != nil && h != nil {
			leaveEmpty(o, w, h)
		}
	}
}

func byName(list any) map[string]map[string]any {
	items, _ := list.([]any)
	out := make(map[string]map[string]any, len(items))
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			if name, ok := m["name"].(string); ok {
				out[name] = m
			}
		}
	}
	return out
}

// emptyBundle is how charts write a caBundle that is to be injected: a line break in base64.
const emptyBundle = "Cg=="

func empty(key string, value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == "" || (key == "caBundle" && v == emptyBundle)
	case map[string]any:
		return len(v) == 0 && openMaps[key]
	default:
		return false
	}
}

// scales tells whether the target has other replicas than before.
func scales(before, target *unstructured.Unstructured) bool {
	return !reflect.DeepEqual(nested(before, "spec", "replicas"), nested(target, "spec", "replicas"))
}

// sameClaims tells whether the target has the same templates of claims as before.
func sameClaims(before, target *unstructured.Unstructured) bool {
	return reflect.DeepEqual(nested(before, claimTemplates...), nested(target, claimTemplates...))
}

func nested(obj *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	return value
}

// autoscaled tells whether spec.replicas was last set through the scale
// subresource by something other than a person's kubectl.
func autoscaled(live *unstructured.Unstructured) bool {
	for _, entry := range live.GetManagedFields() {
		if entry.Subresource == "scale" && !strings.HasPrefix(entry.Manager, "kubectl") && manages(entry, "f:spec", "f:replicas") {
			return true
		}
	}
	return false
}

func manages(entry metav1.ManagedFieldsEntry, path ...string) bool {
	if entry.FieldsV1 == nil {
		return false
	}
	var fields map[string]any
	if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
		return false
	}
	_, found, err := unstructured.NestedFieldNoCopy(fields, path...)
	return found && err == nil
}

// union merges two contents of an object: what either has is in it, and b's value where both have one.
func union(a, b map[string]any) map[string]any {
	out := make(map[string]any, len(a)+len(b))
	maps.Copy(out, a)
	for key, v := range b {
		switch w := v.(type) {
		case map[string]any:
			if m, ok := out[key].(map[string]any); ok {
				v = union(m, w)
			}
		case []any:
			v = unionItems(out[key], w)
		}
		out[key] = v
	}
	return out
}

// unionItems merges lists whose items have names. Of other lists it takes the second.
func unionItems(a any, b []any) []any {
	before, after := byName(a), byName(b)
	items, _ := a.([]any)
	if len(before) != len(items) || len(after) != len(b) {
		return b
	}
	out := make([]any, 0, len(items)+len(b))
	for _, item := range items {
		m, _ := item.(map[string]any)
		name, _ := m["name"].(string)
		if other, ok := after[name]; ok {
			m = union(m, other)
		}
		out = append(out, m)
	}
	for _, item := range b {
		m, _ := item.(map[string]any)
		if name, _ := m["name"].(string); before[name] == nil {
			out = append(out, item)
		}
	}
	return out
}
