// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// objectReady tells whether the object is ready at its current generation, and
// if not, why. A condition Ready decides where there is one; else kstatus; and
// of a custom resource that kstatus knows no more of than that it exists, the
// phase. A custom resource whose controller has not said anything yet is not
// ready. Resources of Chartgate's own kinds must have the condition.
func objectReady(obj *unstructured.Unstructured, ours bool) (bool, string) {
	if obj.GetDeletionTimestamp() != nil {
		return false, "it is being deleted"
	}
	if condition := readyCondition(obj); condition != nil {
		return conditionReady(obj, condition)
	}
	if ours {
		return false, "it has no condition Ready yet"
	}
	result, err := status.Compute(obj)
	if err != nil {
		return false, "its status can't be read: " + err.Error()
	}
	if result.Status != status.CurrentStatus {
		return false, fmt.Sprintf("%s (%s)", result.Message, result.Status)
	}
	if status.GetLegacyConditionsFn(obj) != nil || !custom(obj) {
		return true, ""
	}
	reported, _, _ := unstructured.NestedMap(obj.Object, "status")
	if len(reported) == 0 {
		return false, "it has no status yet; for a kind that never has one, use a gate of type Expression, such as expression: object != null"
	}
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
	switch phase {
	case "", "Deployed", "Running":
		return true, ""
	default:
		return false, fmt.Sprintf("its phase is %s, neither Deployed nor Running", phase)
	}
}

// custom tells whether the object's kind is none of Kubernetes' own.
func custom(obj *unstructured.Unstructured) bool {
	group := obj.GroupVersionKind().Group
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// readyCondition is the object's condition Ready; nil if it has none.
func readyCondition(obj *unstructured.Unstructured) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == "Ready" {
			return condition
		}
	}
	return nil
}

func conditionReady(obj *unstructured.Unstructured, condition map[string]any) (bool, string) {
	if value, _, _ := unstructured.NestedString(condition, "status"); value != "True" {
		return false, fmt.Sprintf("condition Ready is %s, %v: %v", value, text(condition["reason"]), text(condition["message"]))
	}
	observed, stated := generation(condition)
	if !stated {
		reported, _, _ := unstructured.NestedMap(obj.Object, "status")
		observed, stated = generation(reported)
	}
	if stated && observed < obj.GetGeneration() {
		return false, fmt.Sprintf("it was ready at generation %d and is at generation %d now", observed, obj.GetGeneration())
	}
	return true, ""
}

// generation is the observedGeneration that a condition or status states, if it does.
func generation(in map[string]any) (int64, bool) {
	switch observed := in["observedGeneration"].(type) {
	case int64:
		return observed, observed > 0
	case float64:
		return int64(observed), observed > 0
	default:
		return 0, false
	}
}

func text(v any) string {
	if s, ok := v.(string); ok && s != "" {
		return s
	}
	return "nothing said"
}
