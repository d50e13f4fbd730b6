// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FuzzTranslate checks that no resource makes the translator panic, that it is
// a function of the resource alone, and that the chart can be rendered with
// whatever comes out.
func FuzzTranslate(f *testing.F) {
	for _, spec := range []string{
		`{"image":"nginx"}`, `{"image":"a","replicas":0,"port":65535}`, `{"image":null,"config":{"A":"$(B)","B":"\u0000\n"}}`,
		`{"image":"a","resources":{"requests":{"cpu":0.1,"memory":"1e9"},"limits":{"cpu":"1E3","memory":12345678901}}}`,
		`{"image":"a","storage":{"enabled":true,"size":"1Ei","mountPath":"/a b","accessMode":"ReadWriteOncePod","storageClass":"x"}}`,
		`{"image":"a","ingress":{"enabled":true,"host":"*.a.b","tls":{"enabled":true,"secretName":"s"},"annotations":{"a":"{{ fail }}"}}}`,
		`{"image":"a","affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{}]}}}}`,
		`{"image":"a","tolerations":[{"operator":"Exists","tolerationSeconds":9223372036854775807}],"nodeSelector":{"a":"1"}}`,
		`{"image":"a","networkPolicy":{"enabled":true,"from":[{"ipBlock":{"cidr":"10.0.0.0/8"}},{"podSelector":{}}]}}`,
		`{"image":"a","securityContext":{"profile":"Restricted","runAsUser":1,"fsGroup":2}}`, `{"gates":1,"release":[]}`, `[]`, `"x"`, `null`,
	} {
		f.Add("shop", []byte(spec))
	}
	f.Fuzz(func(t *testing.T, name string, spec []byte) {
		obj := &unstructured.Unstructured{}
		wrapped, err := json.Marshal(map[string]any{"kind": "WebApp", "metadata": map[string]any{"name": name}, "spec": json.RawMessage(spec)})
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
		if _, err := render(values); err != nil && !strings.Contains(err.Error(), "don't meet the specifications of the schema") {
			t.Fatalf("%v\nwith %v", err, values)
		}
	})
}
