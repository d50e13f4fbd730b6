// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Fields of spec that say where the release of a chart goes that was chosen at run time.
const (
	targetNamespaceField = "targetNamespace"
	createNamespaceField = "createNamespace"
)

// Placement says where a release is stored, and where its objects go unless they say otherwise.
type Placement struct {
	// Namespace of the release. Empty: that of the resource.
	Namespace string
	// Create makes the namespace where it is missing.
	Create bool
}

// Placer is a Source whose resources say themselves where their releases go.
// Such a resource is never served by the operator itself, but by a ServiceAccount
// that has the rights to go there.
type Placer interface {
	Source
	// Place returns where the release goes. It makes no request. The error says what is wrong with the spec.
	Place(obj *unstructured.Unstructured) (Placement, error)
}

var _ Placer = (*Repository)(nil)

// Place implements Placer: by spec.targetNamespace, and spec.createNamespace, which is true by default.
func (r *Repository) Place(obj *unstructured.Unstructured) (Placement, error) {
	target, _, err := unstructured.NestedString(obj.Object, "spec", targetNamespaceField)
	if err != nil {
		return Placement{}, fmt.Errorf("spec.%s: %w", targetNamespaceField, err)
	}
	if problems := validation.IsDNS1123Label(target); target != "" && len(problems) > 0 {
		return Placement{}, fmt.Errorf("spec.%s: %q is no name of a namespace: %s", targetNamespaceField, target, problems[0])
	}
	create, given, err := unstructured.NestedBool(obj.Object, "spec", createNamespaceField)
	if err != nil {
		return Placement{}, fmt.Errorf("spec.%s: %w", createNamespaceField, err)
	}
	return Placement{Namespace: target, Create: create || !given}, nil
}
