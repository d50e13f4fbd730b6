// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
			name := pick(r, "shop", "a", "true", "null", "e1", strings.Repeat("a", 43))
			spec := r.spec()
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
			if err != nil {
				t.Fatal(err)
			}
			obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "spec": fields}}
			got := mustRender(t, mustTranslate(t, obj))
			setDefaults(spec)
			sets := []*appsv1.StatefulSet{got.sets[name]}
			if *spec.Replicas > 1 {
				sets = append(sets, got.sets[name+"-standby"])
			}
			same(t, "StatefulSets", len(sets), len(got.sets))
			total := int32(0)
			for _, set := range sets {
				total += *set.Spec.Replicas
				checkServers(t, name, spec, set, got)
			}
			same(t, "servers", *spec.Replicas, total)
			checkServices(t, name, spec, got)
			checkCredentials(t, name, spec, got)
			checkBackup(t, name, spec, got)
		})
	}
}

func checkServers(t *testing.T, name string, spec *v1alpha1.DatabaseSpec, set *appsv1.StatefulSet, got *rendered) {
	t.Helper()
	pod := set.Spec.Template.Spec
	server := pod.Containers[0]
	same(t, "label app", name, set.Spec.Template.Labels["app"])
	for key, value := range set.Spec.Selector.MatchLabels {
		same(t, "selected label "+key, value, set.Spec.Template.Labels[key])
	}
	image := spec.Image
	if image == "" {
		image = "docker.io/library/postgres:" + spec.Version
	}
	same(t, "image", image, server.Image)
	same(t, "pull secrets", len(spec.ImagePullSecrets), len(pod.ImagePullSecrets))
	for i, ref := range spec.ImagePullSecrets {
		same(t, "pull secret", ref.Name, pod.ImagePullSecrets[i].Name)
	}
	same(t, "node selector", len(spec.NodeSelector), len(pod.NodeSelector))
	for k, v := range spec.NodeSelector {
		same(t, "node label "+k, string(v), pod.NodeSelector[k])
	}
	same(t, "tolerations", spec.Tolerations, pod.Tolerations)
	same(t, "affinity", spec.Affinity, pod.Affinity)
	amounts(t, "requests", corev1.ResourceList{"cpu": *spec.Resources.Requests.CPU, "memory": *spec.Resources.Requests.Memory}, server.Resources.Requests)
	limits := corev1.ResourceList{"memory": *spec.Resources.Limits.Memory}
	if spec.Resources.Limits.CPU != nil {
		limits["cpu"] = *spec.Resources.Limits.CPU
	}
	amounts(t, "limits", limits, server.Resources.Limits)
	claim := set.Spec.VolumeClaimTemplates[0]
	amounts(t, "storage", corev1.ResourceList{"storage": *spec.StorageSize}, claim.Spec.Resources.Requests)
	same(t, "storage class", spec.StorageClass, deref(claim.Spec.StorageClassName))
	same(t, "label of claims", name, claim.Labels[v1alpha1.LabelDatabase])
	env := environment(server)
	same(t, "database", spec.Database, env["POSTGRES_DB"])
	same(t, "version", spec.Version, env["PG_VERSION_WANTED"])
	data := slices.IndexFunc(server.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "data" })
	if path := server.VolumeMounts[data].MountPath; !strings.HasPrefix(env["PGDATA"], path+"/") {
		t.Errorf("PGDATA %s is no folder below the volume, %s", env["PGDATA"], path)
	}
	if role := set.Spec.Template.Labels["app.kubernetes.io/component"]; env["ROLE"] != role {
		t.Errorf("role %s in a pod of label %s", env["ROLE"], role)
	}
	if got.services[set.Spec.ServiceName] == nil || got.services[set.Spec.ServiceName].Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("no headless service %s", set.Spec.ServiceName)
	}
	monitored := len(pod.Containers) == 2
	same(t, "monitoring", spec.Monitoring != nil && spec.Monitoring.Enabled, monitored)
	if monitored && spec.Monitoring.Image != "" {
		same(t, "exporter", spec.Monitoring.Image, pod.Containers[1].Image)
	}
	checkRestricted(t, pod)
}

func checkServices(t *testing.T, name string, spec *v1alpha1.DatabaseSpec, got *rendered) {
	t.Helper()
	same(t, "read-write service", got.sets[name].Spec.Selector.MatchLabels, got.services[name].Spec.Selector)
	readers := got.sets[name]
	if *spec.Replicas > 1 {
		readers = got.sets[name+"-standby"]
	}
	same(t, "read-only service", readers.Spec.Selector.MatchLabels, got.services[name+"-ro"].Spec.Selector)
	same(t, "budget", *spec.Replicas > 1, got.budgets[name] != nil)
}

func checkCredentials(t *testing.T, name string, spec *v1alpha1.DatabaseSpec, got *rendered) {
	t.Helper()
	secret, user, pass := name+"-credentials", "username", "password"
	made := true
	if c := spec.Credentials; c != nil && c.SecretName != "" {
		secret, user, pass, made = c.SecretName, c.UsernameKey, c.PasswordKey, false
	}
	same(t, "Secrets made", made, len(got.secrets) == 1)
	if made {
		same(t, "policy of the Secret", "keep", got.secrets[secret].Annotations["helm.sh/resource-policy"])
		same(t, "label of the Secret", name, got.secrets[secret].Labels[v1alpha1.LabelDatabase])
	}
	for _, e := range got.sets[name].Spec.Template.Spec.Containers[0].Env {
		switch e.Name {
		case "POSTGRES_USER":
			same(t, "user", []string{secret, user}, []string{e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Key})
		case "POSTGRES_PASSWORD":
			same(t, "password", []string{secret, pass}, []string{e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Key})
		}
	}
}

func checkBackup(t *testing.T, name string, spec *v1alpha1.DatabaseSpec, got *rendered) {
	t.Helper()
	b := spec.Backup
	if b == nil || !b.Enabled {
		same(t, "backups", 0, len(got.crons)+len(got.claims))
		return
	}
	cron, claim := got.crons[name+"-backup"], got.claims[name+"-backup"]
	pod := cron.Spec.JobTemplate.Spec.Template.Spec
	same(t, "schedule", b.Schedule, cron.Spec.Schedule)
	same(t, "time zone", "Etc/UTC", deref(cron.Spec.TimeZone))
	same(t, "retention", fmt.Sprint(*b.Retention), environment(pod.Containers[0])["RETENTION"])
	same(t, "image", got.sets[name].Spec.Template.Spec.Containers[0].Image, pod.Containers[0].Image)
	amounts(t, "backup storage", corev1.ResourceList{"storage": *b.StorageSize}, claim.Spec.Resources.Requests)
	same(t, "backup storage class", spec.StorageClass, deref(claim.Spec.StorageClassName))
	same(t, "policy of the backup volume", "keep", claim.Annotations["helm.sh/resource-policy"])
	same(t, "label of the backup volume", name, claim.Labels[v1alpha1.LabelDatabase])
	checkRestricted(t, pod)
}

// checkRestricted checks what the restricted pod security profile asks for.
func checkRestricted(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	if c := pod.SecurityContext; !*c.RunAsNonRoot || *c.RunAsUser == 0 || c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("pod: %+v", c)
	}
	for _, container := range pod.Containers {
		c := container.SecurityContext
		if *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || !slices.Contains(c.Capabilities.Drop, "ALL") {
			t.Errorf("container %s: %+v", container.Name, c)
		}
	}
}

func environment(c corev1.Container) map[string]string {
	out := map[string]string{}
	for _, e := range c.Env {
		out[e.Name] = e.Value
	}
	return out
}

func amounts(t *testing.T, what string, want, got corev1.ResourceList) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
	for name, q := range want {
		have := got[name]
		if have.Cmp(q) != 0 {
			t.Errorf("%s of %s: %s, want %s", what, name, have.String(), q.String())
		}
	}
}

// same compares; nothing, empty and nil are the same.
func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got): %s", what, diff)
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

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

func amountOf(r random, from ...string) *resource.Quantity {
	if r.sometimes() {
		return nil
	}
	q := resource.MustParse(pick(r, from...))
	return &q
}

func (r random) spec() *v1alpha1.DatabaseSpec {
	s := &v1alpha1.DatabaseSpec{
		Version: pick(r, "", "13", "17.5", "18.0"), Image: pick(r, "", "postgres:17", "registry.local:5000/a/b:1"),
		StorageSize: amountOf(r, "256Mi", "12345678901", "1.5Ti", "1e10"), StorageClass: pick(r, "", "fast", "true", "1"),
		Replicas: maybe[int32](r, 1, 2, 3, 10), Database: pick(r, "", "app", "my-app", "on", "_1"),
		Resources: v1alpha1.DatabaseResources{
			Requests: v1alpha1.DatabaseRequests{CPU: amountOf(r, "1m", "0.1"), Memory: amountOf(r, "64Mi", "100e6")},
			Limits:   v1alpha1.DatabaseLimits{CPU: amountOf(r, "1", "2500m"), Memory: amountOf(r, "512Mi", "8589934592")},
		},
		Credentials: maybe(r, v1alpha1.DatabaseCredentials{}, v1alpha1.DatabaseCredentials{SecretName: "null"},
			v1alpha1.DatabaseCredentials{SecretName: "a.b", UsernameKey: "1", PasswordKey: "true"}),
		Backup: maybe(r, v1alpha1.DatabaseBackup{}, v1alpha1.DatabaseBackup{Enabled: true},
			v1alpha1.DatabaseBackup{Enabled: true, Schedule: "*/5 1-3 * jan,feb mon", StorageSize: amountOf(r, "1Mi", "1Ei"), Retention: maybe[int32](r, 1, 1000)}),
		Monitoring: maybe(r, v1alpha1.DatabaseMonitoring{}, v1alpha1.DatabaseMonitoring{Enabled: true}, v1alpha1.DatabaseMonitoring{Enabled: true, Image: "a/b:1"}),
	}
	s.DeletionPolicy = pick(r, "", v1alpha1.DatabaseRetain, v1alpha1.DatabaseDelete)
	if r.sometimes() {
		s.NodeSelector = map[string]v1alpha1.DatabaseLabelValue{"kubernetes.io/os": "linux", "disk": "true", "n": "010"}
		s.ImagePullSecrets = []v1alpha1.DatabaseSecretReference{{Name: "one"}, {Name: "2"}}
	}
	if r.sometimes() {
		seconds := int64(9007199254740993)
		s.Tolerations = []corev1.Toleration{{Operator: "Exists"}, {Key: "a", Value: "1", Effect: "NoExecute", TolerationSeconds: &seconds}}
	}
	s.Affinity = maybe(r, corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
		Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"1"}}}},
	}}}})
	return s
}
