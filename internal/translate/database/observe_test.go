// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/internal/translate"
)

// object parses YAML; nothing gives nil, as for an object that does not exist.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	if text == "" {
		return nil
	}
	out := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = out.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestObserve(t *testing.T) {
	one, two := "{apiVersion: apps/v1, kind: StatefulSet, metadata: {generation: 2, labels: {app.kubernetes.io/version: '17.5'}}, spec: {replicas: 1}, status: ",
		"{apiVersion: apps/v1, kind: StatefulSet, metadata: {generation: 2, labels: {app.kubernetes.io/version: '17.5'}}, spec: {replicas: 2}, status: "
	const job = "{apiVersion: batch/v1, kind: CronJob, status: {lastSuccessfulTime: '2026-01-02T03:04:05Z'}}"
	fields := func(current, ready int64, version, backup any) map[string]any {
		return map[string]any{"currentReplicas": current, "readyReplicas": ready, "currentVersion": version, "lastBackup": backup}
	}
	for name, c := range map[string]struct {
		status                    string
		primary, standbys, backup string
		want                      translate.Observation
	}{
		"nothing yet": {want: translate.Observation{Fields: fields(0, 0, nil, nil), Desired: 1}},
		"all ready": {
			primary: one + "{observedGeneration: 2, replicas: 1, readyReplicas: 1, updatedReplicas: 1}}", standbys: two + "{observedGeneration: 2, replicas: 2, readyReplicas: 2, updatedReplicas: 2}}", backup: job,
			want: translate.Observation{Fields: fields(3, 3, "17.5", "2026-01-02T03:04:05Z"), Ready: 3, Desired: 3},
		},
		"rolling: the former version is told": {
			status: "{currentVersion: '17.4'}", primary: one + "{observedGeneration: 2, replicas: 1, readyReplicas: 1, updatedReplicas: 1}}", standbys: two + "{observedGeneration: 2, replicas: 2, readyReplicas: 2, updatedReplicas: 1}}",
			want: translate.Observation{Fields: fields(3, 3, "17.4", nil), Ready: 2, Desired: 3},
		},
		"a change that its controller has not seen": {
			status: "{currentVersion: '17.4'}", primary: one + "{observedGeneration: 1, replicas: 1, readyReplicas: 1, updatedReplicas: 1}}",
			want: translate.Observation{Fields: fields(1, 1, "17.4", nil), Ready: 1, Desired: 1},
		},
		"backups turned off": {
			status: "{lastBackup: '2026-01-01T00:00:00Z'}", primary: one + "{observedGeneration: 2, replicas: 1}}",
			want: translate.Observation{Fields: fields(1, 0, nil, "2026-01-01T00:00:00Z"), Desired: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := c.status
			if status == "" {
				status = "{}"
			}
			obj := object(t, "{apiVersion: apps.chartgate.dev/v1alpha1, kind: Database, metadata: {name: shop}, status: "+status+"}")
			got := Translator{}.Observe(obj, []*unstructured.Unstructured{object(t, c.primary), object(t, c.standbys), object(t, c.backup)})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDataGoesByNameAndPolicy(t *testing.T) {
	data := Translator{}.Data(object(t, "{apiVersion: apps.chartgate.dev/v1alpha1, kind: Database, metadata: {name: shop}, spec: {deletionPolicy: Delete, replicas: wrong}}"))
	if !data.Delete || data.Label != "chartgate.dev/database" || data.Value != "shop" {
		t.Errorf("data: %+v", data)
	}
	for name, want := range map[string]bool{
		"data-shop-0": true, "data-shop-12": true, "data-shop-standby-0": true, "shop-backup": true,
		"data-shop-": false, "data-shop-0-x": false, "data-shop-a": false, "data-shop-standby-": false, "data-shop2-0": false, "shop": false, "xdata-shop-0": false,
	} {
		if data.Claim(name) != want {
			t.Errorf("claim %s is the Database's: %t", name, !want)
		}
	}
	if !data.Secret("shop-credentials") || data.Secret("shop") || data.Secret("mine") {
		t.Error("a Secret is taken for another")
	}
	for _, spec := range []string{"{}", "{deletionPolicy: Retain}", "{deletionPolicy: [Delete]}", "[]"} {
		obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "shop"}}}
		var fields any
		if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
			t.Fatal(err)
		}
		obj.Object["spec"] = fields
		if (Translator{}).Data(obj).Delete {
			t.Errorf("spec %s deletes data", spec)
		}
	}
}
