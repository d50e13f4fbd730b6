// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// random makes valid specs, each field of which is often left out.
type random struct{ *rand.Rand }

func (r random) sometimes() bool { return r.IntN(2) == 0 }

func pick[T any](r random, from ...T) T { return from[r.IntN(len(from))] }

func maybe[T any](r random, from ...T) *T {
	if r.sometimes() {
		return nil
	}
	v := pick(r, from...)
	return &v
}

func quantityOf(r random, from ...string) *resource.Quantity {
	if r.sometimes() {
		return nil
	}
	q := resource.MustParse(pick(r, from...))
	return &q
}

func (r random) spec() *v1alpha1.WebAppSpec {
	s := &v1alpha1.WebAppSpec{
		Image:    pick(r, "nginx", "ghcr.io/example/shop:1.2", "registry.local:5000/a/b@sha256:"+"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
		Replicas: maybe[int32](r, 0, 1, 100),
		Port:     maybe[int32](r, 1, 80, 8080, 65535),
		Resources: v1alpha1.WebAppResources{
			Requests: v1alpha1.WebAppRequests{CPU: quantityOf(r, "0", "1m", "0.1"), Memory: quantityOf(r, "1Mi", "2000000", "64M")},
			Limits:   v1alpha1.WebAppLimits{CPU: quantityOf(r, "1", "2500m", "1e3"), Memory: quantityOf(r, "128Mi", "8589934592", "1.5Gi")},
		},
		Probe: v1alpha1.WebAppProbe{
			Enabled: maybe(r, true, true, false), Path: pick(r, "", "/", "/healthz?a=b"), Port: maybe[int32](r, 1, 9000),
			InitialDelaySeconds: maybe[int32](r, 0, 5), PeriodSeconds: maybe[int32](r, 1, 10, 3600), TimeoutSeconds: maybe[int32](r, 1, 30),
			FailureThreshold: maybe[int32](r, 1, 100), StartupSeconds: maybe[int32](r, 1, 7, 3600),
		},
		SecurityContext: v1alpha1.WebAppSecurityContext{
			Profile:   pick(r, "", v1alpha1.ProfileBaseline, v1alpha1.ProfileRestricted),
			RunAsUser: maybe[int64](r, 1, 1000, 2147483647), RunAsGroup: maybe[int64](r, 0, 1000), FSGroup: maybe[int64](r, 0, 2000),
			ReadOnlyRootFilesystem: r.sometimes(),
		},
	}
	if r.sometimes() {
		s.Config = map[string]v1alpha1.WebAppConfigValue{}
		for range r.IntN(8) {
			s.Config[pick(r, "A", "B", "a.b", "_", "LOG_LEVEL", "Z", "yes", "x-y")] = pick[v1alpha1.WebAppConfigValue](r, "", "1", "true", "a b", "$(A)", "$$", "$$$(B)$", "$", "€\n\t\"'", "{{ .Values }}", "1e3", "\u2028\x00")
		}
	}
	if r.sometimes() {
		s.Storage = &v1alpha1.WebAppStorage{
			Enabled: r.IntN(4) > 0, Size: quantityOf(r, "1Mi", "10Gi", "1e9", "1Ei"), StorageClass: pick(r, "", "standard", "123"),
			MountPath: pick(r, "", "/data", "/a b/c", "/0"),
			AccessMode: pick(r, "", v1alpha1.AccessReadWriteOnce, v1alpha1.AccessReadWriteMany,
				v1alpha1.AccessReadWriteOncePod),
		}
	}
	if r.sometimes() {
		s.Ingress = &v1alpha1.WebAppIngress{
			Enabled: r.IntN(4) > 0, Host: pick(r, "a", "shop.example.com", "*.example.com", "1.a"), ClassName: pick(r, "", "nginx", "true"),
			TLS: maybe(r, v1alpha1.WebAppTLS{}, v1alpha1.WebAppTLS{Enabled: true, SecretName: "null"}),
		}
		if r.sometimes() {
			s.Ingress.Annotations = map[string]v1alpha1.WebAppAnnotationValue{"a/b": "true", "c": "{{ fail }}\n", "d": "8m"}
		}
	}
	r.placement(s)
	return s
}

func (r random) placement(s *v1alpha1.WebAppSpec) {
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "1"}}
	term := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: labels}
	if r.sometimes() {
		s.NodeSelector = map[string]v1alpha1.WebAppLabelValue{"kubernetes.io/os": "linux", "disk": "true", "n": "010"}
		s.ImagePullSecrets = []v1alpha1.WebAppSecretReference{{Name: "one"}, {Name: "2"}}
	}
	if r.sometimes() {
		seconds := int64(9007199254740993)
		s.Tolerations = []corev1.Toleration{{Operator: "Exists"}, {Key: "a", Value: "1", Effect: "NoExecute", TolerationSeconds: &seconds}}
	}
	s.Affinity = maybe(r, corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: term}}}},
		corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}})
	s.NetworkPolicy = maybe(r, v1alpha1.WebAppNetworkPolicy{}, v1alpha1.WebAppNetworkPolicy{Enabled: true},
		v1alpha1.WebAppNetworkPolicy{Enabled: true, From: []networkingv1.NetworkPolicyPeer{{PodSelector: labels}, {IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}}})
}
