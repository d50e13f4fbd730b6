// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/internal/translate"
)

var (
	_ translate.Scaler   = Translator{}
	_ translate.Observer = Translator{}
)

// deployment is the WebApp's workload, which has its name.
func deployment(obj *unstructured.Unstructured) translate.Object {
	return translate.Object{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Name: obj.GetName()}
}

// Scaled implements translate.Scaler.
func (Translator) Scaled(obj *unstructured.Unstructured) (translate.Object, string) {
	return deployment(obj), ReplicasValue
}

// Observed implements translate.Observer.
func (Translator) Observed(obj *unstructured.Unstructured) []translate.Object {
	return []translate.Object{deployment(obj)}
}

// Observe implements translate.Observer: replicas, readyReplicas and selector,
// which the scale subresource shows to autoscalers. While a change rolls out,
// only pods of the new kind count as ready.
func (Translator) Observe(_ *unstructured.Unstructured, live []*unstructured.Unstructured) translate.Observation {
	d := live[0]
	if d == nil {
		return translate.Observation{Fields: map[string]any{"replicas": int64(0), "readyReplicas": int64(0)}, Desired: 1}
	}
	ready := translate.Number(d, "status", "readyReplicas")
	out := translate.Observation{
		Fields: map[string]any{"replicas": translate.Number(d, "status", "replicas"), "readyReplicas": ready},
		Ready:  min(ready, translate.Number(d, "status", "updatedReplicas")), Desired: translate.Number(d, "spec", "replicas"),
	}
	if selector := selectorOf(d); selector != "" {
		out.Fields["selector"] = selector
	}
	return out
}

// selectorOf returns spec.selector as a string; empty if it is none.
func selectorOf(d *unstructured.Unstructured) string {
	raw, _, _ := unstructured.NestedMap(d.Object, "spec", "selector")
	data, err := json.Marshal(raw)
	if err != nil || len(raw) == 0 {
		return ""
	}
	var selector metav1.LabelSelector
	if json.Unmarshal(data, &selector) != nil {
		return ""
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return ""
	}
	return parsed.String()
}
