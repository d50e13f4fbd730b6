// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestPlace(t *testing.T) {
	for name, c := range map[string]struct {
		spec  map[string]any
		want  Placement
		wrong string
	}{
		"nothing said":         {spec: nil, want: Placement{Create: true}},
		"a target":             {spec: map[string]any{"targetNamespace": "prod"}, want: Placement{Namespace: "prod", Create: true}},
		"that is to be there":  {spec: map[string]any{"targetNamespace": "prod", "createNamespace": false}, want: Placement{Namespace: "prod"}},
		"no name":              {spec: map[string]any{"targetNamespace": "../kube-system"}, wrong: "spec.targetNamespace"},
		"no text":              {spec: map[string]any{"targetNamespace": int64(1)}, wrong: "spec.targetNamespace"},
		"neither true nor not": {spec: map[string]any{"createNamespace": "yes"}, wrong: "spec.createNamespace"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&Repository{}).Place(&unstructured.Unstructured{Object: map[string]any{"spec": c.spec}})
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("%+v, error %v", got, err)
			}
		})
	}
}
