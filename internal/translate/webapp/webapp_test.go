// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestTranslateAndRender(t *testing.T) {
	full, err := os.ReadFile("../../../config/samples/apps_v1alpha1_webapp_full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	everything := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(full, &everything.Object); err != nil {
		t.Fatal(err)
	}
	for name, obj := range map[string]*unstructured.Unstructured{
		"image-alone": app(t, "shop", `{image: "nginx:1.27"}`),
		"everything":  everything,
		"restricted": app(t, "shop", `{image: "ghcr.io/example/shop:2", port: 8080, replicas: 0,
			securityContext: {profile: Restricted, runAsUser: 1000, readOnlyRootFilesystem: true}, storage: {enabled: true, size: 5Gi}}`),
		"turned-off": app(t, "shop", `{image: "nginx:1.27", probe: {enabled: false}, storage: {enabled: false}, ingress: {enabled: false, host: a.example.com},
			networkPolicy: {enabled: false}, config: {}, tolerations: [], affinity: {}, imagePullSecrets: [], nodeSelector: {}}`),
		"values-that-look-like-others": app(t, "true", `{image: "nginx:1.27", config: {"YES": "yes", "NO": "no", "N": "010", "NULL": "null", DOLLAR: "pa$$word", REF: "$(YES)", PRICE: "5$", EMPTY: "", LINES: "a\nb: c\n", BRACES: "{{ .Values }}"}}`),
		"dotted-and-large-quantities":  app(t, "shop", `{image: "nginx:1.27", resources: {requests: {cpu: "0.5", memory: 134217728}, limits: {cpu: 2, memory: 8589934592}}}`),
	} {
		t.Run(name, func(t *testing.T) {
			before := obj.DeepCopy()
			values := mustTranslate(t, obj)
			if diff := cmp.Diff(before, obj); diff != "" {
				t.Error("the resource was changed: " + diff)
			}
			data, err := yaml.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".values.yaml", data)
			mustRender(t, values)
			text, err := manifests(values)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".manifests.yaml", []byte(text))
			for range 20 {
				again, err := yaml.Marshal(mustTranslate(t, obj))
				if err != nil || string(again) != string(data) {
					t.Fatalf("the same resource translates differently (%v):\n%s", err, cmp.Diff(string(data), string(again)))
				}
			}
		})
	}
}

func golden(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
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

func TestTranslateRefuses(t *testing.T) {
	long := strings.Repeat("a", 64)
	for name, c := range map[string]struct {
		name string
		spec string
		want []string
	}{
		"no image":                       {spec: `{}`, want: []string{"spec.image: Required"}},
		"no spec":                        {spec: `null`, want: []string{"spec.image: Required"}},
		"a spec that is no map":          {spec: `[]`, want: []string{"spec has to be a map"}},
		"a blank image":                  {spec: `{image: " "}`, want: []string{"spec.image: Required"}},
		"an image with spaces":           {spec: `{image: "a b"}`, want: []string{`spec.image: Invalid value: "a b"`}},
		"an image that is a number":      {spec: `{image: 1}`, want: []string{"spec.image has to be a string, and is a number"}},
		"an unknown field":               {spec: `{image: a, imag: b, storage: {enabled: true, sizee: 1Gi}}`, want: []string{`unknown field "spec.imag"`, `unknown field "spec.storage.sizee"`}},
		"a port out of range":            {spec: `{image: a, port: 0}`, want: []string{"spec.port", "between 1 and 65535"}},
		"a port beyond all integers":     {spec: `{image: a, port: 4294967296}`, want: []string{"spec.port has to be a whole number"}},
		"a port that is a string":        {spec: `{image: a, port: "http"}`, want: []string{"spec.port has to be a whole number", "string"}},
		"a fraction of a pod":            {spec: `{image: a, replicas: 1.5}`, want: []string{"spec.replicas has to be a whole number"}},
		"too many replicas":              {spec: `{image: a, replicas: 101}`, want: []string{"spec.replicas", "between 0 and 100"}},
		"fewer than no replicas":         {spec: `{image: a, replicas: -1}`, want: []string{"spec.replicas"}},
		"no quantity":                    {spec: `{image: a, resources: {limits: {memory: lots}}}`, want: []string{`spec.resources.limits.memory: "lots" is not a quantity`}},
		"a quantity that is a map":       {spec: `{image: a, resources: {limits: {memory: {}}}}`, want: []string{"spec.resources.limits.memory has to be a quantity"}},
		"a size that is no quantity":     {spec: `{image: a, storage: {enabled: true, size: 10 GB}}`, want: []string{"spec.storage.size"}},
		"requests above limits":          {spec: `{image: a, resources: {requests: {cpu: 2, memory: 1Gi}}}`, want: []string{"spec.resources.requests.cpu", "limits.cpu, 500m", "spec.resources.requests.memory", "limits.memory, 128Mi"}},
		"thousandths of bytes":           {spec: `{image: a, resources: {requests: {memory: 64m}, limits: {memory: 128m}}}`, want: []string{"spec.resources.requests.memory", "spec.resources.limits.memory"}},
		"negative amounts":               {spec: `{image: a, resources: {requests: {cpu: "-1"}, limits: {cpu: 0}}}`, want: []string{"spec.resources.requests.cpu", "spec.resources.limits.cpu"}},
		"bad names of variables":         {spec: `{image: a, config: {"1A": a, "A=B": b, "": c}}`, want: []string{"spec.config[1A]", "spec.config[A=B]", "spec.config[]"}},
		"a variable that is a number":    {spec: `{image: a, config: {A: 1}}`, want: []string{"spec.config", "has to be a string, and is a number"}},
		"an ingress without host":        {spec: `{image: a, ingress: {enabled: true}}`, want: []string{"spec.ingress.host: Required"}},
		"a bad host":                     {spec: `{image: a, ingress: {enabled: true, host: "http://a"}}`, want: []string{"spec.ingress.host"}},
		"TLS without a Secret":           {spec: `{image: a, ingress: {enabled: true, host: a.b, tls: {enabled: true}}}`, want: []string{"spec.ingress.tls.secretName: Required"}},
		"a relative mount path":          {spec: `{image: a, storage: {enabled: true, mountPath: data}}`, want: []string{"spec.storage.mountPath"}},
		"a mount path that is the root":  {spec: `{image: a, storage: {enabled: true, mountPath: //}}`, want: []string{"spec.storage.mountPath"}},
		"a mount path that climbs":       {spec: `{image: a, storage: {enabled: true, mountPath: /a/../..}}`, want: []string{"spec.storage.mountPath"}},
		"an unknown access mode":         {spec: `{image: a, storage: {enabled: true, accessMode: Some}}`, want: []string{"spec.storage.accessMode"}},
		"storage below the scratch disk": {spec: `{image: a, storage: {enabled: true, mountPath: /tmp/}, securityContext: {readOnlyRootFilesystem: true}}`, want: []string{"spec.storage.mountPath"}},
		"no storage to speak of":         {spec: `{image: a, storage: {enabled: true, size: 1}}`, want: []string{"spec.storage.size"}},
		"an unknown profile":             {spec: `{image: a, securityContext: {profile: Privileged}}`, want: []string{"spec.securityContext.profile"}},
		"root in a restricted pod":       {spec: `{image: a, securityContext: {profile: Restricted, runAsUser: 0}}`, want: []string{"spec.securityContext.runAsUser"}},
		"a user beyond all":              {spec: `{image: a, securityContext: {runAsUser: 4294967296, fsGroup: -1}}`, want: []string{"spec.securityContext.runAsUser", "spec.securityContext.fsGroup"}},
		"a probe of a relative path":     {spec: `{image: a, probe: {path: healthz, port: 70000}}`, want: []string{"spec.probe.path", "spec.probe.port"}},
		"a pull secret without name":     {spec: `{image: a, imagePullSecrets: [{}]}`, want: []string{"spec.imagePullSecrets[0].name"}},
		"affinity that is no affinity":   {spec: `{image: a, affinity: {nodeAffinity: []}}`, want: []string{"spec.affinity.nodeAffinity has to be a map"}},
		"a name that no Service may have": {name: "a.b", spec: `{image: a}`,
			want: []string{"metadata.name", "Service"}},
		"a name that is too long":          {name: long, spec: `{image: a}`, want: []string{"metadata.name"}},
		"the name of each ServiceAccount":  {name: "default", spec: `{image: a}`, want: []string{"metadata.name", "ServiceAccount"}},
		"everything that is wrong at once": {spec: `{replicas: 1000, port: -1}`, want: []string{"spec.image", "spec.replicas", "spec.port"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.name == "" {
				c.name = "shop"
			}
			obj := app(t, c.name, c.spec)
			_, err := Translator{}.Translate(obj)
			if err == nil {
				t.Fatal("it is taken")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the message does not say %q: %v", want, err)
				}
			}
			if _, again := (Translator{}).Translate(obj); again.Error() != err.Error() {
				t.Errorf("the same mistake is told differently: %v and %v", err, again)
			}
		})
	}
}

func TestTranslateLeavesChartgatesOwnFieldsAlone(t *testing.T) {
	values := mustTranslate(t, app(t, "shop", `{image: a, gates: "whatever they are", release: 1}`))
	for _, key := range []string{"gates", "release"} {
		if _, there := values[key]; there {
			t.Errorf("%s reached the chart", key)
		}
	}
}
