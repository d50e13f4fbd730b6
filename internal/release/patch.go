// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"encoding/json"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// threeWayPatch works out the patch that takes live to target: what target
// says is set, what original said and target does not is taken away, and what
// only live has (filled in by the server, another controller or a person) is
// left alone. Nil where there is nothing to change.
func threeWayPatch(original, target, live *unstructured.Unstructured) ([]byte, types.PatchType, error) {
	original = adoptStaleOwners(original, target, live)
	before, err := original.MarshalJSON()
	if err != nil {
		return nil, "", err
	}
	after, err := target.MarshalJSON()
	if err != nil {
		return nil, "", err
	}
	current, err := live.MarshalJSON()
	if err != nil {
		return nil, "", err
	}
	var patch []byte
	patchType := types.MergePatchType
	typed, err := scheme.Scheme.New(target.GroupVersionKind())
	_, isCRD := typed.(*apiextensionsv1.CustomResourceDefinition)
	if err == nil && !isCRD {
		patchType = types.StrategicMergePatchType
		patchMeta, err := strategicpatch.NewPatchMetaFromStruct(typed)
		if err != nil {
			return nil, "", err
		}
		patch, err = strategicpatch.CreateThreeWayMergePatch(before, after, current, patchMeta, true)
		if err != nil {
			return nil, "", err
		}
	} else {
		patch, err = jsonmergepatch.CreateThreeWayJSONMergePatch(before, after, current)
		if err != nil {
			return nil, "", err
		}
	}
	if len(patch) == 0 || bytes.Equal(patch, []byte("{}")) || setsNothing(patch) {
		return nil, patchType, nil
	}
	return patch, patchType, nil
}

// toVersion adds to a patch that the server applies it to this version of the object alone.
func toVersion(patch []byte, live *unstructured.Unstructured) ([]byte, error) {
	var root map[string]any
	if err := utiljson.Unmarshal(patch, &root); err != nil { // which keeps large integers what they are
		return nil, err
	}
	if err := unstructured.SetNestedField(root, live.GetResourceVersion(), "metadata", "resourceVersion"); err != nil {
		return nil, err
	}
	return utiljson.Marshal(root)
}

// setsNothing tells whether a strategic merge patch holds only directives that
// it has wherever live knows more than target: the order of list items, and the
// keys of a union to retain, such as a Deployment's strategy that names only its type.
func setsNothing(patch []byte) bool {
	var root map[string]any
	return json.Unmarshal(patch, &root) == nil && directivesOnly(root)
}

func directivesOnly(fields map[string]any) bool {
	for key, value := range fields {
		if isDirective(key) {
			continue
		}
		if m, ok := value.(map[string]any); !ok || len(m) == 0 || !directivesOnly(m) {
			return false
		}
	}
	return true
}

func isDirective(key string) bool {
	return strings.HasPrefix(key, "$setElementOrder/") || key == "$retainKeys"
}

// adoptStaleOwners adds to original the controller reference of live that
// names the same owner under another UID: the owner was deleted and created
// anew (restored from a backup, say), and the stale reference has to go.
func adoptStaleOwners(original, target, live *unstructured.Unstructured) *unstructured.Unstructured {
	want := metav1.GetControllerOf(target)
	have := metav1.GetControllerOf(live)
	if want == nil || have == nil || want.UID == have.UID || want.Kind != have.Kind || want.Name != have.Name {
		return original
	}
	original = original.DeepCopy()
	original.SetOwnerReferences(append(original.GetOwnerReferences(), *have))
	return original
}
