// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// TestObjectsCarryTheSpec renders the chart with what came out for random specs, and looks for each
// field of the spec in the objects.
func TestObjectsCarryTheSpec(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := random{rand.New(rand.NewPCG(seed, 0))}
			name := pick(r, "shop", "a", "true", "null", "e1", strings.Repeat("a", 63))
			spec := r.spec()
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
			if err != nil {
				t.Fatal(err)
			}
			obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "spec": fields}}
			got := mustRender(t, mustTranslate(t, obj))
			setDefaults(spec)
			checkDeployment(t, name, spec, got)
			checkPod(t, spec, got.deployment.Spec.Template.Spec)
			checkOthers(t, name, spec, got)
		})
	}
}

func checkDeployment(t *testing.T, name string, spec *v1alpha1.WebAppSpec, got *rendered) {
	t.Helper()
	d := got.deployment
	same(t, "replicas", spec.Replicas, d.Spec.Replicas)
	same(t, "label app", name, d.Labels["app"])
	same(t, "the pods' label app", name, d.Spec.Template.Labels["app"])
	for key, value := range d.Spec.Selector.MatchLabels {
		same(t, "selected label "+key, value, d.Spec.Template.Labels[key])
	}
	for _, n := range got.names {
		same(t, "name of an object", name, n)
	}
	strategy := "RollingUpdate"
	if s := spec.Storage; s != nil && s.Enabled && s.AccessMode != v1alpha1.AccessReadWriteMany {
		strategy = "Recreate"
	}
	same(t, "strategy", strategy, string(d.Spec.Strategy.Type))
}

func checkPod(t *testing.T, spec *v1alpha1.WebAppSpec, pod corev1.PodSpec) {
	t.Helper()
	c := pod.Containers[0]
	same(t, "image", spec.Image, c.Image)
	same(t, "port", *spec.Port, c.Ports[0].ContainerPort)
	same(t, "node selector", plainStrings(spec.NodeSelector), pod.NodeSelector)
	same(t, "tolerations", spec.Tolerations, pod.Tolerations)
	names := make([]string, 0, len(pod.ImagePullSecrets))
	for _, ref := range pod.ImagePullSecrets {
		names = append(names, ref.Name)
	}
	wantNames := make([]string, 0, len(spec.ImagePullSecrets))
	for _, ref := range spec.ImagePullSecrets {
		wantNames = append(wantNames, ref.Name)
	}
	same(t, "pull secrets", wantNames, names)

	env := map[string]string{}
	order := make([]string, 0, len(c.Env))
	for _, e := range c.Env {
		env[e.Name] = expand(e.Value)
		order = append(order, e.Name)
	}
	same(t, "config", plainStrings(spec.Config), env)
	if !slices.IsSorted(order) {
		t.Errorf("variables are not in order: %v", order)
	}
	for which, want := range map[string]*resource.Quantity{
		"requests cpu": spec.Resources.Requests.CPU, "requests memory": spec.Resources.Requests.Memory,
		"limits cpu": spec.Resources.Limits.CPU, "limits memory": spec.Resources.Limits.Memory,
	} {
		kind, of, _ := strings.Cut(which, " ")
		have := map[string]corev1.ResourceList{"requests": c.Resources.Requests, "limits": c.Resources.Limits}[kind][corev1.ResourceName(of)]
		if have.Cmp(*want) != 0 {
			t.Errorf("%s: %s, want %s", which, have.String(), want.String())
		}
	}
	checkProbes(t, spec, c)
	checkSecurity(t, spec, pod)
	checkPlacement(t, spec, pod)
}

func checkProbes(t *testing.T, spec *v1alpha1.WebAppSpec, c corev1.Container) {
	t.Helper()
	p := spec.Probe
	if !*p.Enabled {
		if c.ReadinessProbe != nil || c.LivenessProbe != nil || c.StartupProbe != nil {
			t.Error("there are probes")
		}
		return
	}
	for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe} {
		same(t, "period", *p.PeriodSeconds, probe.PeriodSeconds)
		same(t, "timeout", *p.TimeoutSeconds, probe.TimeoutSeconds)
		same(t, "failures", *p.FailureThreshold, probe.FailureThreshold)
	}
	if s := c.StartupProbe; s.FailureThreshold*s.PeriodSeconds < *p.StartupSeconds || s.InitialDelaySeconds != *p.InitialDelaySeconds {
		t.Errorf("start-up probe: %+v", s)
	}
	for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
		path, port := "", "http"
		switch {
		case probe.HTTPGet != nil && probe.TCPSocket == nil:
			path, port = probe.HTTPGet.Path, probe.HTTPGet.Port.String()
		case probe.TCPSocket != nil:
			port = probe.TCPSocket.Port.String()
		default:
			t.Fatalf("probe: %+v", probe)
		}
		want := "http"
		if p.Port != nil {
			want = fmt.Sprint(*p.Port)
		}
		same(t, "probe path", p.Path, path)
		same(t, "probe port", want, port)
	}
}

func checkSecurity(t *testing.T, spec *v1alpha1.WebAppSpec, pod corev1.PodSpec) {
	t.Helper()
	want, have, container := spec.SecurityContext, pod.SecurityContext, pod.Containers[0].SecurityContext
	same(t, "user", want.RunAsUser, have.RunAsUser)
	same(t, "group", want.RunAsGroup, have.RunAsGroup)
	if want.FSGroup != nil {
		same(t, "group of the volume", want.FSGroup, have.FSGroup)
	}
	same(t, "privilege escalation", new(bool), container.AllowPrivilegeEscalation)
	same(t, "read-only root", want.ReadOnlyRootFilesystem, container.ReadOnlyRootFilesystem != nil && *container.ReadOnlyRootFilesystem)
	dropsAll := slices.Contains(container.Capabilities.Drop, "ALL")
	if want.Profile == v1alpha1.ProfileRestricted && (!dropsAll || have.RunAsNonRoot == nil || !*have.RunAsNonRoot || have.SeccompProfile == nil) {
		t.Errorf("not restricted: %+v %+v", have, container)
	}
	if want.Profile == v1alpha1.ProfileBaseline && dropsAll {
		t.Error("a stock image can't start without capabilities")
	}
	same(t, "token", new(bool), pod.AutomountServiceAccountToken)
}

func checkPlacement(t *testing.T, spec *v1alpha1.WebAppSpec, pod corev1.PodSpec) {
	t.Helper()
	oneNode := spec.Storage != nil && spec.Storage.Enabled && spec.Storage.AccessMode != v1alpha1.AccessReadWriteMany
	want := spec.Affinity.DeepCopy()
	if oneNode {
		if want == nil {
			want = &corev1.Affinity{}
		}
		if want.PodAffinity == nil {
			want.PodAffinity = &corev1.PodAffinity{}
		}
		terms := &want.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*terms = append(*terms, corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			"app": pod.ServiceAccountName, "app.kubernetes.io/name": "webapp",
		}}})
	}
	same(t, "affinity", want, pod.Affinity)
	if oneNode == (len(pod.TopologySpreadConstraints) > 0) {
		t.Errorf("spread: %v", pod.TopologySpreadConstraints)
	}
}

func checkOthers(t *testing.T, name string, spec *v1alpha1.WebAppSpec, got *rendered) {
	t.Helper()
	same(t, "service port", *spec.Port, got.service.Spec.Ports[0].Port)
	same(t, "service selector", got.deployment.Spec.Selector.MatchLabels, got.service.Spec.Selector)
	same(t, "budget selector", got.deployment.Spec.Selector, got.budget.Spec.Selector)
	same(t, "token of the account", new(bool), got.account.AutomountServiceAccountToken)
	if s := spec.Storage; s == nil || !s.Enabled {
		same(t, "claim", nil, got.claim)
	} else {
		size := got.claim.Spec.Resources.Requests[corev1.ResourceStorage]
		same(t, "size", 0, size.Cmp(*s.Size))
		same(t, "access modes", []corev1.PersistentVolumeAccessMode{corev1.PersistentVolumeAccessMode(s.AccessMode)}, got.claim.Spec.AccessModes)
		same(t, "class", s.StorageClass, deref(got.claim.Spec.StorageClassName))
		pod := got.deployment.Spec.Template.Spec
		same(t, "mount path", s.MountPath, pod.Containers[0].VolumeMounts[0].MountPath)
		same(t, "claim of the pod", name, pod.Volumes[0].PersistentVolumeClaim.ClaimName)
	}
	if in := spec.Ingress; in == nil || !in.Enabled {
		same(t, "ingress", nil, got.ingress)
	} else {
		rule := got.ingress.Spec.Rules[0]
		same(t, "host", in.Host, rule.Host)
		same(t, "class", in.ClassName, deref(got.ingress.Spec.IngressClassName))
		same(t, "annotations", plainStrings(in.Annotations), got.ingress.Annotations)
		same(t, "backend", networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Name: "http"}}, *rule.HTTP.Paths[0].Backend.Service)
		var tls []networkingv1.IngressTLS
		if in.TLS != nil && in.TLS.Enabled {
			tls = []networkingv1.IngressTLS{{Hosts: []string{in.Host}, SecretName: in.TLS.SecretName}}
		}
		same(t, "tls", tls, got.ingress.Spec.TLS)
	}
	if p := spec.NetworkPolicy; p == nil || !p.Enabled {
		same(t, "network policy", nil, got.policy)
	} else {
		rule := got.policy.Spec.Ingress[0]
		same(t, "peers", p.From, rule.From)
		same(t, "port let through", *spec.Port, rule.Ports[0].Port.IntVal)
		same(t, "pods of the policy", *got.deployment.Spec.Selector, got.policy.Spec.PodSelector)
	}
}

// expand does with a variable's value what the kubelet does where no other variable is known: $$ is
// one $, a reference stays as it is.
func expand(value string) string {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] == '$' && i+1 < len(value) && value[i+1] == '$' {
			i++
		} else if value[i] == '$' && i+1 < len(value) && value[i+1] == '(' {
			b.WriteString("expanded:")
		}
		b.WriteByte(value[i])
	}
	return b.String()
}

// same compares; nothing, empty and nil are the same.
func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if want == nil && isNil(got) {
		return
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got): %s", what, diff)
	}
}

func isNil(v any) bool {
	switch p := v.(type) {
	case nil:
		return true
	case *corev1.PersistentVolumeClaim:
		return p == nil
	case *networkingv1.Ingress:
		return p == nil
	case *networkingv1.NetworkPolicy:
		return p == nil
	default:
		return false
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func plainStrings[V ~string](m map[string]V) map[string]string {
	out := map[string]string{}
	for k, v := range maps.All(m) {
		out[k] = string(v)
	}
	return out
}
