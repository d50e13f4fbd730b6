// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webapp turns the spec of a WebApp into the values of chart webapp.
package webapp

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/internal/translate"
)

// Translator translates WebApps. The number of pods is in one value,
// [ReplicasValue], which sets the Deployment's spec.replicas and nothing else:
// whoever leaves it out of a comparison ignores a scaling and only that.
type Translator struct{}

var _ translate.Translator = Translator{}

// ReplicasValue is the value that holds the number of pods.
const ReplicasValue = "replicas"

// Translate implements [translate.Translator]. Fields that the spec leaves out
// get the CRD's defaults, so the outcome is the same whether or not the API
// server has filled them in. A field that the chart can't be released with is
// an error that names it by its path.
func (Translator) Translate(obj *unstructured.Unstructured) (map[string]any, error) {
	spec, err := decode(obj)
	if err != nil {
		return nil, err
	}
	setDefaults(spec)
	if err := validate(obj.GetName(), spec).ToAggregate(); err != nil {
		return nil, err
	}
	return values(obj.GetName(), spec)
}
