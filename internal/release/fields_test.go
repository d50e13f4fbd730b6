// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func parseObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	objects, err := parseManifestString(text)
	if err != nil || len(objects) != 1 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	return objects[0]
}

func TestSpareLeavesToOthersWhatIsTheirs(t *testing.T) {
	cases := map[string]struct {
		before, target, live string
		want                 string // the patch, empty for none
	}{
		"an empty caBundle that was injected": {
			target: "kind: ValidatingWebhookConfiguration\napiVersion: admissionregistration.k8s.io/v1\nwebhooks: [{name: a.b.c, clientConfig: {caBundle: \"\"}}]",
			live:   "kind: ValidatingWebhookConfiguration\napiVersion: admissionregistration.k8s.io/v1\nwebhooks: [{name: a.b.c, clientConfig: {caBundle: QUJD}}]",
		},
		"a placeholder caBundle that was injected": {
			target: "kind: ValidatingWebhookConfiguration\napiVersion: admissionregistration.k8s.io/v1\nwebhooks: [{name: a.b.c, clientConfig: {caBundle: Cg==}}]",
			live:   "kind: ValidatingWebhookConfiguration\napiVersion: admissionregistration.k8s.io/v1\nwebhooks: [{name: a.b.c, clientConfig: {caBundle: QUJD}}]",
		},
		"a caBundle of a CRD's conversion webhook": {
			target: "kind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1\nspec: {conversion: {webhook: {clientConfig: {caBundle: Cg==}}}}",
			live:   "kind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1\nspec: {conversion: {webhook: {clientConfig: {caBundle: QUJD}}}}",
		},
		"claims' templates that the API server filled in, and that have grown": {
			target: "kind: StatefulSet\napiVersion: apps/v1\nspec: {volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: 1Gi}}}}]}",
			live:   "kind: StatefulSet\napiVersion: apps/v1\nspec: {volumeClaimTemplates: [{metadata: {name: data}, spec: {volumeMode: Filesystem, resources: {requests: {storage: 2Gi}}}, status: {phase: Pending}}]}",
		},
		"claims' templates that the chart changed": {
			before: "kind: StatefulSet\napiVersion: apps/v1\nspec: {volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: 1Gi}}}}]}",
			target: "kind: StatefulSet\napiVersion: apps/v1\nspec: {volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: 2Gi}}}}]}",
			live:   "kind: StatefulSet\napiVersion: apps/v1\nspec: {volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: 1Gi}}}}]}",
			want:   `{"spec":{"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"resources":{"requests":{"storage":"2Gi"}}}}]}}`,
		},
		"an empty Secret that was filled": {
			target: "kind: Secret\napiVersion: v1\ndata: {tls.crt: \"\"}",
			live:   "kind: Secret\napiVersion: v1\ndata: {tls.crt: QUJD, tls.key: QUJD}",
		},
		"a value that was edited": {
			target: "kind: ConfigMap\napiVersion: v1\ndata: {a: right}",
			live:   "kind: ConfigMap\napiVersion: v1\ndata: {a: wrong, extra: mine}",
			want:   `{"data":{"a":"right"}}`,
		},
		"a value that the chart empties": {
			before: "kind: ConfigMap\napiVersion: v1\ndata: {a: full}",
			target: "kind: ConfigMap\napiVersion: v1\ndata: {a: \"\"}",
			live:   "kind: ConfigMap\napiVersion: v1\ndata: {a: full}",
			want:   `{"data":{"a":""}}`,
		},
		"a network policy that lets nothing in is no empty field": {
			target: "kind: NetworkPolicy\napiVersion: networking.k8s.io/v1\nspec: {podSelector: {}, ingress: []}",
			live:   "kind: NetworkPolicy\napiVersion: networking.k8s.io/v1\nspec: {podSelector: {}, ingress: [{}]}",
			want:   `{"spec":{"ingress":[]}}`,
		},
		"rules of an aggregated role": {
			target: "kind: ClusterRole\napiVersion: rbac.authorization.k8s.io/v1\naggregationRule: {clusterRoleSelectors: []}\nrules: []",
			live:   "kind: ClusterRole\napiVersion: rbac.authorization.k8s.io/v1\naggregationRule: {clusterRoleSelectors: []}\nrules: [{verbs: [get]}]",
		},
		"an injected sidecar": {
			target: "kind: Deployment\napiVersion: apps/v1\nspec: {template: {spec: {containers: [{name: app, image: a}]}}}",
			live:   "kind: Deployment\napiVersion: apps/v1\nspec: {template: {spec: {containers: [{name: app, image: a}, {name: sidecar, image: b}]}}}",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.before == "" {
				c.before = c.target
			}
			before, target, live := parseObject(t, c.before), parseObject(t, c.target), parseObject(t, c.live)
			original, want := spare(before, target, live)
			patch, _, err := threeWayPatch(original, want, live)
			if err != nil {
				t.Fatal(err)
			}
			if string(patch) != c.want {
				t.Errorf("patch %s, want %s", patch, c.want)
			}
		})
	}
}

func TestReplicasOfAnAutoscalerAreItsOwn(t *testing.T) {
	target := parseObject(t, "kind: Deployment\napiVersion: apps/v1\nspec: {replicas: 2, paused: true}")
	entry := func(manager, subresource string) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{{
			Manager: manager, Subresource: subresource,
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
		}}
	}
	cases := map[string]struct {
		managed []metav1.ManagedFieldsEntry
		want    string
	}{
		"an autoscaler":             {entry("kube-controller-manager", "scale"), ""},
		"kubectl scale":             {entry("kubectl", "scale"), `{"spec":{"replicas":2}}`},
		"an edit of the Deployment": {entry("kube-controller-manager", ""), `{"spec":{"replicas":2}}`},
		"nobody known":              {nil, `{"spec":{"replicas":2}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			live := parseObject(t, "kind: Deployment\napiVersion: apps/v1\nspec: {replicas: 5, paused: true}")
			live.SetManagedFields(c.managed)
			original, want := spare(target, target, live)
			patch, _, err := threeWayPatch(original, want, live)
			if err != nil || string(patch) != c.want {
				t.Errorf("patch %s, want %s, %v", patch, c.want, err)
			}
		})
	}
}

func TestPatchPathsNameFieldsAndNoValues(t *testing.T) {
	got, err := patchPaths([]byte(`{"data":{"a":"secret"},"spec":{"replicas":2,"template":{"spec":{
		"$setElementOrder/containers":[{"name":"app"}],"containers":[{"name":"app","image":"x"}]}},"tags":["a"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := "data.a spec.replicas spec.tags spec.template.spec.containers[app].image"
	if strings.Join(got, " ") != want {
		t.Errorf("paths %v, want %s", got, want)
	}
}

func TestUnionHasWhatEitherHas(t *testing.T) {
	parse := func(text string) map[string]any {
		var out map[string]any
		if err := yaml.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	got := union(
		parse("{a: 1, m: {x: 1, y: 1}, l: [{name: one, v: 1}, {name: two}], s: [1]}"),
		parse("{b: 2, m: {y: 2, z: 2}, l: [{name: one, w: 2}, {name: three}], s: [2]}"))
	want := parse("{a: 1, b: 2, m: {x: 1, y: 2, z: 2}, l: [{name: one, v: 1, w: 2}, {name: two}, {name: three}], s: [2]}")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("union %v, want %v", got, want)
	}
}
