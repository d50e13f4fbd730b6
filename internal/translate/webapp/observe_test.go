// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/internal/translate"
	"github.com/chartgate/chartgate/internal/translate/webapp"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = obj.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestScale(t *testing.T) {
	for text, want := range map[string]int64{"image: a": 1, "image: a, replicas: 0": 0, "image: a, replicas: 7": 7} {
		obj := parse(t, "{apiVersion: apps.chartgate.dev/v1alpha1, kind: WebApp, metadata: {name: shop}, spec: {"+text+"}}")
		values, err := webapp.Translator{}.Translate(obj)
		scaled, value := webapp.Translator{}.Scaled(obj)
		if err != nil || values[value] != want || scaled.Name != "shop" || value != webapp.ReplicasValue {
			t.Errorf("%s: %v has %v in %s, %v", text, scaled, values[value], value, err)
		}
	}
}

func TestObserve(t *testing.T) {
	for name, c := range map[string]struct {
		deployment string
		want       translate.Observation
	}{
		"rolling out": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 3, selector: {matchLabels: {app: shop}}}, status: {replicas: 4, readyReplicas: 3, updatedReplicas: 1}}",
			translate.Observation{Fields: map[string]any{"replicas": int64(4), "readyReplicas": int64(3), "selector": "app=shop"}, Ready: 1, Desired: 3},
		},
		"scaled to none": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0, selector: {matchLabels: {app: shop}}}, status: {}}",
			translate.Observation{Fields: map[string]any{"replicas": int64(0), "readyReplicas": int64(0), "selector": "app=shop"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := webapp.Translator{}.Observe(nil, []*unstructured.Unstructured{parse(t, c.deployment)})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := (webapp.Translator{}).Observe(nil, []*unstructured.Unstructured{nil}); got.Ready >= got.Desired {
		t.Errorf("without a Deployment: %+v", got)
	}
}
