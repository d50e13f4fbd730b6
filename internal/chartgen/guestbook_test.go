// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const guestbookPath = "../../helm-charts/guestbook"

func loadGuestbook(t testing.TB) *chart.Chart {
	t.Helper()
	chrt, err := Load(guestbookPath)
	if err != nil {
		t.Fatal(err)
	}
	return chrt
}

// render is what helm template prints, sorted by file, without NOTES.txt.
func render(t testing.TB, chrt *chart.Chart, release, values string) (map[string]string, error) {
	t.Helper()
	var vals map[string]any
	if err := yaml.Unmarshal([]byte(values), &vals); err != nil {
		t.Fatal(err)
	}
	opts := chartutil.ReleaseOptions{Name: release, Namespace: "books", Revision: 1, IsInstall: true}
	top, err := chartutil.ToRenderValues(chrt, vals, opts, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chrt, top)
}

func mustRender(t testing.TB, release, values string) map[string]string {
	t.Helper()
	files, err := render(t, loadGuestbook(t), release, values)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func manifests(files map[string]string) []byte {
	var out bytes.Buffer
	for _, name := range sortedKeys(files) {
		if filepath.Ext(name) == ".yaml" && strings.TrimSpace(files[name]) != "" {
			fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", name, strings.TrimSpace(files[name]))
		}
	}
	return out.Bytes()
}

// objects decodes the manifests strictly: a field that Kubernetes doesn't know is an error.
func objects(t testing.TB, files map[string]string) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, manifest := range releaseutil.SplitManifests(string(manifests(files))) {
		var head releaseutil.SimpleHead
		if err := yaml.Unmarshal([]byte(manifest), &head); err != nil {
			t.Fatalf("%v in\n%s", err, manifest)
		}
		object, ok := map[string]any{
			"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{}, "ServiceAccount": &corev1.ServiceAccount{},
			"PersistentVolumeClaim": &corev1.PersistentVolumeClaim{}, "Ingress": &networkingv1.Ingress{},
		}[head.Kind]
		if !ok {
			t.Fatalf("kind %q is not expected in\n%s", head.Kind, manifest)
		}
		if err := yaml.UnmarshalStrict([]byte(manifest), object); err != nil {
			t.Fatalf("%v in\n%s", err, manifest)
		}
		out[head.Kind+"/"+head.Metadata.Name] = object
	}
	return out
}

func golden(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: run go test with -update to write it", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got), run go test with -update if that is meant:\n%s", path, diff)
	}
}

func TestGuestbookManifests(t *testing.T) {
	everything, err := os.ReadFile(filepath.Join("testdata", "guestbook", "everything.values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range map[string]string{"defaults": "{}", "everything": string(everything)} {
		t.Run(name, func(t *testing.T) {
			files := mustRender(t, "hello", values)
			objects(t, files)
			got := manifests(files)
			for range 5 {
				if again := manifests(mustRender(t, "hello", values)); !bytes.Equal(got, again) {
					t.Fatalf("the same input rendered differently:\n%s", cmp.Diff(string(got), string(again)))
				}
			}
			golden(t, filepath.Join("guestbook", name+".golden.yaml"), got)
			golden(t, filepath.Join("guestbook", name+".notes.txt"), []byte(files["guestbook/templates/NOTES.txt"]))
		})
	}
}

func TestGuestbookObjectsAreNamedAfterTheRelease(t *testing.T) {
	long := strings.Repeat("a", 53)
	for release, want := range map[string][]string{
		"hello": {"hello", "hello-redis-leader", "hello-redis-follower"},
		"a.b":   {"a-b-2e7336", "a-b-2e7336-redis-leader", "a-b-2e7336-redis-follower"},
		"1st":   {"gb-1st-e01ddf", "gb-1st-e01ddf-redis-leader", "gb-1st-e01ddf-redis-follower"},
		long:    {long, strings.Repeat("a", 43) + "-abe346-redis-leader", strings.Repeat("a", 41) + "-abe346-redis-follower"},
	} {
		t.Run(release, func(t *testing.T) {
			var names []string
			for key, object := range objects(t, mustRender(t, release, "{}")) {
				if _, ok := object.(*corev1.Service); ok {
					names = append(names, strings.TrimPrefix(key, "Service/"))
				}
			}
			for _, name := range names {
				if errs := validation.IsDNS1035Label(name); len(errs) > 0 {
					t.Errorf("Service name %s: %v", name, errs)
				}
			}
			for _, name := range want {
				if !strings.Contains(strings.Join(names, " ")+" ", name+" ") {
					t.Errorf("no Service %s among %v", name, names)
				}
			}
		})
	}
}

func TestGuestbookPodsAreRestrictedAndWired(t *testing.T) {
	found := objects(t, mustRender(t, "hello", "redis: {leader: {persistence: {enabled: true}}}"))
	pods := 0
	for key, object := range found {
		deployment, ok := object.(*appsv1.Deployment)
		if !ok {
			continue
		}
		pods++
		spec := deployment.Spec.Template.Spec
		if !*spec.SecurityContext.RunAsNonRoot || *spec.SecurityContext.RunAsUser == 0 ||
			spec.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: pod security context %+v", key, spec.SecurityContext)
		}
		if *spec.AutomountServiceAccountToken {
			t.Errorf("%s mounts a token", key)
		}
		for _, c := range spec.Containers {
			if *c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem ||
				len(c.SecurityContext.Capabilities.Drop) != 1 || c.SecurityContext.Capabilities.Drop[0] != "ALL" {
				t.Errorf("%s: security context %+v", key, c.SecurityContext)
			}
			if c.ReadinessProbe == nil || c.LivenessProbe == nil {
				t.Errorf("%s has a probe too few", key)
			}
			if strings.HasSuffix(c.Image, ":") || strings.HasSuffix(c.Image, ":latest") {
				t.Errorf("%s: image %s is not pinned", key, c.Image)
			}
			volumes := map[string]bool{}
			for _, v := range spec.Volumes {
				volumes[v.Name] = true
			}
			for _, m := range c.VolumeMounts {
				if !volumes[m.Name] {
					t.Errorf("%s mounts %s, which is no volume", key, m.Name)
				}
			}
		}
		service, ok := found["Service/"+deployment.Name].(*corev1.Service)
		if !ok {
			t.Fatalf("%s has no Service", key)
		}
		if diff := cmp.Diff(deployment.Spec.Selector.MatchLabels, service.Spec.Selector); diff != "" {
			t.Errorf("%s and its Service select differently: %s", key, diff)
		}
		for label, value := range deployment.Spec.Selector.MatchLabels {
			if deployment.Spec.Template.Labels[label] != value {
				t.Errorf("%s does not select its own pods", key)
			}
			if strings.Contains(label, "version") || strings.Contains(label, "chart") {
				t.Errorf("%s: the immutable selector holds %s, which changes", key, label)
			}
		}
	}
	if pods != 3 {
		t.Errorf("%d Deployments, want 3", pods)
	}
}

func TestGuestbookValues(t *testing.T) {
	frontend := func(o map[string]any) *appsv1.Deployment { return o["Deployment/hello"].(*appsv1.Deployment) }
	env := func(d *appsv1.Deployment, name string) string {
		for _, e := range d.Spec.Template.Spec.Containers[0].Env {
			if e.Name == name {
				return e.Value
			}
		}
		return ""
	}
	for name, tc := range map[string]struct {
		values string
		check  func(t *testing.T, o map[string]any)
	}{
		"null leaves the replicas to an autoscaler": {"replicaCount: null", func(t *testing.T, o map[string]any) {
			if r := frontend(o).Spec.Replicas; r != nil {
				t.Errorf("replicas %d", *r)
			}
		}},
		"zero replicas are zero": {"replicaCount: 0", func(t *testing.T, o map[string]any) {
			if r := frontend(o).Spec.Replicas; r == nil || *r != 0 {
				t.Errorf("replicas %v", r)
			}
		}},
		"without followers the leader answers reads": {"redis: {follower: {replicaCount: 0}}", func(t *testing.T, o map[string]any) {
			if host := env(frontend(o), "REDIS_FOLLOWER_SERVICE_HOST"); host != "hello-redis-leader" {
				t.Errorf("reads go to %s", host)
			}
		}},
		"quantities may be numbers, and null drops one": {"resources: {requests: {cpu: 2, memory: null}, limits: {nvidia.com/gpu: 1}}", func(t *testing.T, o map[string]any) {
			got := frontend(o).Spec.Template.Spec.Containers[0].Resources
			if got.Requests.Cpu().String() != "2" || got.Limits.Name("nvidia.com/gpu", "").String() != "1" || got.Limits.Memory().String() != "256Mi" {
				t.Errorf("resources %+v", got)
			}
			if _, ok := got.Requests[corev1.ResourceMemory]; ok {
				t.Error("the memory request is still there")
			}
		}},
		"ingress with TLS": {`
ingress:
  enabled: true
  className: nginx
  hosts: [{host: a.example.com}, {host: b.example.com, paths: [{path: /x, pathType: Exact}]}]
  tls: [{secretName: cert, hosts: [a.example.com]}]`, func(t *testing.T, o map[string]any) {
			spec := o["Ingress/hello"].(*networkingv1.Ingress).Spec
			if *spec.IngressClassName != "nginx" || spec.TLS[0].SecretName != "cert" || spec.TLS[0].Hosts[0] != "a.example.com" {
				t.Errorf("spec %+v", spec)
			}
			first, second := spec.Rules[0].HTTP.Paths[0], spec.Rules[1].HTTP.Paths[0]
			if first.Path != "/" || *first.PathType != networkingv1.PathTypePrefix || second.Path != "/x" || *second.PathType != networkingv1.PathTypeExact {
				t.Errorf("paths %+v and %+v", first, second)
			}
		}},
		"ingress without hosts answers for any": {"ingress: {enabled: true}", func(t *testing.T, o map[string]any) {
			rules := o["Ingress/hello"].(*networkingv1.Ingress).Spec.Rules
			if len(rules) != 1 || rules[0].Host != "" || rules[0].HTTP.Paths[0].Backend.Service.Name != "hello" {
				t.Errorf("rules %+v", rules)
			}
		}},
		"someone else's ServiceAccount": {"serviceAccount: {create: false, name: robot}", func(t *testing.T, o map[string]any) {
			if got := frontend(o).Spec.Template.Spec.ServiceAccountName; got != "robot" || o["ServiceAccount/robot"] != nil {
				t.Errorf("ServiceAccount %s, created: %v", got, o["ServiceAccount/robot"] != nil)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) { tc.check(t, objects(t, mustRender(t, "hello", tc.values))) })
	}
}

func TestGuestbookRefusesBadValues(t *testing.T) {
	for name, values := range map[string]string{
		"a typo":              "replicas: 2",
		"a negative number":   "replicaCount: -1",
		"an empty quantity":   `resources: {limits: {cpu: ""}}`,
		"a port out of range": "service: {port: 70000}",
		"an unknown type":     "service: {type: Nowhere}",
		"a reserved key":      "gates: []",
		"no image at all":     "image: null",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := render(t, loadGuestbook(t), "hello", values); err == nil {
				t.Errorf("%s was taken", values)
			}
		})
	}
}

// Every value is in the schema with a description, and every default of the schema is the one of values.yaml.
func TestGuestbookSchemaTellsAllOfValuesYAML(t *testing.T) {
	chrt := loadGuestbook(t)
	doc, err := parseDocument(schemaFile, chrt.Schema)
	if err != nil {
		t.Fatal(err)
	}
	c := newConverter(newParser(doc), DefaultsAll)
	var walk func(path string, list []located, value any)
	walk = func(path string, list []located, value any) {
		f := c.settle(list)
		if f.description == "" && path != "" {
			t.Errorf("%s has no description", path)
		}
		fields, _ := value.(map[string]any)
		if len(f.props) == 0 {
			if f.hasDefault && !sameJSON(f.def, value) {
				t.Errorf("%s: default %s in the schema, %s in values.yaml", path, encode(f.def), encode(value))
			}
			return
		}
		for _, name := range sortedKeys(fields) {
			if f.props[name] == nil {
				t.Errorf("%s.%s is not in the schema", path, name)
			}
		}
		for _, name := range sortedKeys(f.props) {
			if _, ok := fields[name]; !ok {
				t.Errorf("%s.%s is not in values.yaml", path, name)
			}
			walk(path+"."+name, f.props[name], fields[name])
		}
	}
	walk("", []located{{schema: c.parser.at("")}}, any(ownValues(chrt)))
}
