// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// rules ask, on the spec, for a value that the chart requires and doesn't
// supply. A plain required would also refuse a resource that takes the value
// from spec.release.valuesFrom, which is where passwords come from.
func (r requirement) rules(fields []string) apiextensionsv1.ValidationRules {
	guards := make([]bool, 0, len(fields)+len(r.path))
	for range fields {
		guards = append(guards, true)
	}
	guards = append(guards, r.guards...)
	path := append(append([]string{}, fields...), r.path...)
	var names []string
	for _, name := range path {
		escaped, ok := apiservercel.Escape(name)
		if !ok {
			return nil // CEL has no name for such a field; Helm still asks for it
		}
		names = append(names, escaped)
	}
	condition := has("self." + strings.Join(names, "."))
	for i := len(names) - 2; i >= 0; i-- {
		there := has("self." + strings.Join(names[:i+1], "."))
		if guards[i] {
			condition = there + " && " + condition
		} else {
			condition = "(!" + there + " || " + condition + ")"
		}
	}
	reason := apiextensionsv1.FieldValueRequired
	elsewhere := "self." + v1alpha1.ReleaseField
	return apiextensionsv1.ValidationRules{{
		Rule:    fmt.Sprintf("%s && %s || %s", has(elsewhere), has(elsewhere+".valuesFrom"), condition),
		Message: fmt.Sprintf("the chart requires spec.%s: set it here, or supply it by spec.%s.valuesFrom", strings.Join(path, "."), v1alpha1.ReleaseField),
		Reason:  &reason,
	}}
}

func has(path string) string { return "has(" + path + ")" }
