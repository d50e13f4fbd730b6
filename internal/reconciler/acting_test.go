// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/internal/identity"
)

func TestWhoServesAResource(t *testing.T) {
	robot := identity.Identity{Namespace: "team-a", ServiceAccount: "robot"}
	fallback := identity.Identity{Namespace: "team-a", ServiceAccount: "fallback"}
	for name, c := range map[string]struct {
		account  string // of the kind
		named    any    // by the resource
		declared bool
		want     identity.Identity
		nobody   bool
	}{
		"nobody is named":                         {declared: true, want: identity.Operator},
		"the resource names one":                  {named: "robot", declared: true, want: robot},
		"the kind does":                           {account: "fallback", declared: true, want: fallback},
		"the resource goes before its kind":       {account: "fallback", named: "robot", declared: true, want: robot},
		"an empty name is none":                   {account: "fallback", named: "", declared: true, want: fallback},
		"a field of the chart is no setting":      {account: "fallback", named: "robot", want: fallback},
		"another namespace's":                     {named: "kube-system:admin", declared: true, nobody: true},
		"a path":                                  {named: "../admin", declared: true, nobody: true},
		"no text is not taken for nothing":        {named: int64(1), declared: true, nobody: true},
		"nor where the kind would have somebody":  {account: "fallback", named: map[string]any{"name": "robot"}, declared: true, nobody: true},
		"a wrong name does not fall back, either": {account: "fallback", named: "A b", declared: true, nobody: true},
	} {
		t.Run(name, func(t *testing.T) {
			release := map[string]any{}
			if c.named != nil {
				release["serviceAccountName"] = c.named
			}
			obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"release": release}}}
			obj.SetNamespace("team-a")
			got, err := acting{account: c.account}.as(obj, c.declared)
			if (err != nil) != c.nobody || got != c.want {
				t.Errorf("%v, error %v", got, err)
			}
			if _, stall := asStall(err); c.nobody && !stall {
				t.Errorf("%v is tried again for nothing", err)
			}
		})
	}
}
