// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FuzzTranslate checks that no resource makes the translator panic, that it is
// a function of the resource alone, and that the chart renders with whatever
// comes out.
func FuzzTranslate(f *testing.F) {
	for _, spec := range []string{
		`{}`, `null`, `[]`, `"x"`, `{"gates":1,"release":[]}`, `{"version":"17.5","image":"a","database":"b","replicas":10}`,
		`{"storageSize":12345678901,"resources":{"requests":{"cpu":0.1,"memory":"1e9"},"limits":{"cpu":"1E3","memory":"2Gi"}}}`,
		`{"backup":{"enabled":true,"schedule":"CRON_TZ=x","storageSize":"1Ei","retention":1}}`,
		`{"backup":{"enabled":true,"schedule":"*/5 0-6 1,2 jan mon"},"monitoring":{"enabled":true,"image":"\u0000"}}`,
		`{"credentials":{"secretName":"a","usernameKey":"..","passwordKey":"p"},"storageClass":"x","imagePullSecrets":[{"name":"1"}]}`,
		`{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{}]}}},"nodeSelector":{"a":"1"}}`,
		`{"tolerations":[{"operator":"Exists","tolerationSeconds":9223372036854775807}],"deletionPolicy":"Delete"}`,
	} {
		f.Add("shop", []byte(spec))
	}
	f.Fuzz(func(t *testing.T, name string, spec []byte) {
		obj := &unstructured.Unstructured{}
		wrapped, err := json.Marshal(map[string]any{"kind": "Database", "metadata": map[string]any{"name": name}, "spec": json.RawMessage(spec)})
		if err != nil || obj.UnmarshalJSON(wrapped) != nil {
			t.Skip()
		}
		before := obj.DeepCopy()
		values, err := Translator{}.Translate(obj)
		if diff := cmp.Diff(before, obj); diff != "" {
			t.Fatal("the resource was changed: " + diff)
		}
		again, errAgain := Translator{}.Translate(obj)
		if (err == nil) != (errAgain == nil) || err != nil && err.Error() != errAgain.Error() || !cmp.Equal(values, again) {
			t.Fatalf("twice the same resource: %v, %v and %v, %v", values, err, again, errAgain)
		}
		if err != nil {
			if !strings.Contains(err.Error(), "spec") && !strings.Contains(err.Error(), "metadata.name") {
				t.Fatalf("the message names no field: %v", err)
			}
			return
		}
		if _, err := render(values); err != nil {
			t.Fatalf("%v\nwith %v", err, values)
		}
	})
}
