// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// reservedFields finds out whether a kind's CRD declares Chartgate's own spec
// fields. Where it does not, as in an operator-sdk project, fields of the same
// names are the chart's. The answer is asked of the API server once.
type reservedFields struct {
	gvk    schema.GroupVersionKind
	client openapi.Client

	mu       sync.Mutex
	known    bool
	declared bool
}

// Declared tells whether spec.gates and spec.release are Chartgate's.
func (r *reservedFields) Declared() (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known {
		return r.declared, nil
	}
	paths, err := r.client.Paths()
	if err != nil {
		return false, fmt.Errorf("OpenAPI of the API server: %w", err)
	}
	path, ok := paths["apis/"+r.gvk.GroupVersion().String()]
	if !ok {
		return false, fmt.Errorf("the API server publishes no schema of %s yet", r.gvk.GroupVersion())
	}
	data, err := path.Schema(runtime.ContentTypeJSON)
	if err != nil {
		return false, fmt.Errorf("OpenAPI of %s: %w", r.gvk.GroupVersion(), err)
	}
	declared, found, err := declaresReserved(data, r.gvk)
	if err != nil {
		return false, fmt.Errorf("OpenAPI of %s: %w", r.gvk.GroupVersion(), err)
	}
	if !found {
		return false, fmt.Errorf("the API server publishes no schema of %s yet", r.gvk)
	}
	r.known, r.declared = true, declared
	return declared, nil
}

// declaresReserved looks for the kind in an OpenAPI v3 document, and in it for
// a spec that has both reserved fields.
func declaresReserved(document []byte, gvk schema.GroupVersionKind) (declared, found bool, err error) {
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Kinds      []metaKind `json:"x-kubernetes-group-version-kind"`
				Properties map[string]struct {
					Properties map[string]json.RawMessage `json:"properties"`
				} `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		return false, false, err
	}
	for _, s := range doc.Components.Schemas {
		for _, k := range s.Kinds {
			if k.Group == gvk.Group && k.Version == gvk.Version && k.Kind == gvk.Kind {
				spec := s.Properties["spec"].Properties
				_, gates := spec[v1alpha1.GatesField]
				_, release := spec[v1alpha1.ReleaseField]
				return gates && release, true, nil
			}
		}
	}
	return false, false, nil
}

type metaKind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// readSpec returns Chartgate's settings of a resource whose kind declares them.
func readSpec(obj *unstructured.Unstructured) (v1alpha1.CommonSpec, error) {
	var spec v1alpha1.CommonSpec
	raw, _ := obj.Object["spec"].(map[string]any)
	own := map[string]any{}
	for _, field := range []string{v1alpha1.GatesField, v1alpha1.ReleaseField} {
		if v, ok := raw[field]; ok {
			own[field] = v
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(own, &spec); err != nil {
		return spec, &stallError{reason: v1alpha1.ReasonInvalidValues, err: fmt.Errorf("spec.gates or spec.release: %w", err)}
	}
	return spec, nil
}
