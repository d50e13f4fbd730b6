// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"errors"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

func microservice(name, resources string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"resources": resources}}}
	u.SetAPIVersion("apps.chartgate.dev/v1alpha1")
	u.SetKind("Microservice")
	u.SetName(name)
	u.SetNamespace("team")
	return u
}

func filesDigest(c *chart.Chart) string {
	var b strings.Builder
	for _, f := range c.Raw {
		b.WriteString(f.Name + "=" + string(f.Data) + ";")
	}
	return b.String()
}

const classic = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
---
apiVersion: v1
kind: Service
metadata:
  name: orders
`

func TestInlineMakesAChart(t *testing.T) {
	source := NewInline(filesDigest)
	c, err := source.Resolve(t.Context(), microservice("orders", classic), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Name() != "orders" || c.Metadata.Version != "0.0.0" {
		t.Errorf("chart is %s %s", c.Name(), c.Metadata.Version)
	}
	rendered := render(t, c.Chart)
	if len(rendered) != 2 || !strings.Contains(rendered[0]+rendered[1], "name: rel") {
		t.Errorf("rendered: %q", rendered)
	}
	again, err := source.Resolve(t.Context(), microservice("orders", classic), nil)
	if err != nil || again != c {
		t.Errorf("the same manifests gave another chart (%v)", err)
	}
	renamed, err := source.Resolve(t.Context(), microservice("billing", classic), nil)
	if err != nil || renamed.Digest == c.Digest || renamed.Name() != "billing" {
		t.Errorf("another name: %v, %v", renamed, err)
	}
	edited, err := source.Resolve(t.Context(), microservice("orders", classic+"# changed\n"), nil)
	if err != nil || edited.Digest == c.Digest {
		t.Errorf("edited manifests have the same digest (%v)", err)
	}
}

// render renders a chart as the release engine does, and returns its manifests.
func render(t testing.TB, c *chart.Chart) []string {
	t.Helper()
	values, err := chartutil.ToRenderValues(c, nil, chartutil.ReleaseOptions{Name: "rel", Namespace: "team"}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, values)
	if err != nil {
		t.Fatal(err)
	}
	_, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range manifests {
		out = append(out, m.Content)
	}
	return out
}

func TestInlineTakes(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n"
	cases := map[string]string{
		"one document":                            service,
		"separators before, between and after":    "---\n" + service + "---\n---\n# nothing here\n---\n" + strings.Replace(service, "name: a", "name: b", 1) + "---\n",
		"Windows line ends":                       strings.ReplaceAll("---\n"+service+"---\n"+strings.Replace(service, "name: a", "name: b", 1), "\n", "\r\n"),
		"a comment right after a separator":       "--- # first\n" + service,
		"a list kind":                             "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: a}\n- apiVersion: v1\n  kind: Service\n  metadata: {name: b}\n",
		"the same name in another namespace":      service + "---\n" + service + "  namespace: other\n",
		"the same name of another kind":           service + "---\n" + strings.Replace(service, "Service", "Secret", 1),
		"the same name of another group":          service + "---\n" + strings.Replace(service, "v1", "serving.knative.dev/v1", 1),
		"a document that a directive switches":    "{{ if .Values.never }}\nnot: [yaml\n---\n{{ end }}\n" + service,
		"a broken document inside a definition":   "{{ define \"x\" }}\n: : :\n---\n{{ end }}" + service,
		"a template comment over several lines":   "{{- /*\n---\nnothing: [\n*/ -}}\n" + service,
		"the same object twice, one switched off": service + "---\n{{ if .Values.never }}\n" + service + "{{ end }}\n",
		"a function that only Helm knows":         "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {{ toYaml (dict \"a\" \"b\") | nindent 2 }}\n",
		"an object named by a directive":          strings.Replace(service, "name: a", "name: {{ .Release.Name }}", 1),
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			c, err := NewInline(filesDigest).Resolve(t.Context(), microservice("x", text), nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(render(t, c.Chart)) == 0 {
				t.Error("nothing is rendered")
			}
		})
	}
}

func TestInlineRefuses(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n"
	cases := map[string]struct {
		text string
		want []string
	}{
		"nothing":                           {"", []string{"no manifest"}},
		"blanks and comments":               {"\n# later\n---\n\n---\n  # more\n", []string{"no manifest"}},
		"separators alone":                  {"---\n---\n------\n{}\n", []string{"no manifest"}},
		"a template comment alone":          {"{{/* later */}}", []string{"no manifest"}},
		"broken YAML in the third document": {service + "---\n---\napiVersion: v1\nkind: [Pod\nmetadata: {}\n", []string{"document 3 (line 7)", "not YAML", "line 8"}},
		"a tab for indentation":             {"apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n", []string{"document 1 (line 1)", "line 4"}},
		"a first line that is indented":     {"kind: A\napiVersion: v1\nmetadata: {name: a}\n---\n  kind: A\n  apiVersion: v1\n", []string{"document 2 (line 5)", "not YAML"}},
		"a YAML list":                       {service + "---\n- apiVersion: v1\n  kind: Pod\n", []string{"document 2 (line 6)", "a YAML list", "kind List"}},
		"plain text":                        {"hello\n", []string{"document 1 (line 1)", "not a manifest"}},
		"no kind":                           {"apiVersion: v1\nmetadata: {name: a}\n", []string{"document 1 (line 1)", "kind is missing"}},
		"no apiVersion":                     {"\n\nkind: Pod\nmetadata: {name: a}\n", []string{"document 1 (line 3)", "apiVersion of the Pod is missing"}},
		"an apiVersion with two slashes":    {"apiVersion: a/b/c\nkind: Pod\nmetadata: {name: a}\n", []string{"document 1", "a/b/c"}},
		"no name":                           {"apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", []string{"document 1", "metadata.name of the Pod is missing"}},
		"an object twice":                   {service + "---\n" + service, []string{"document 2 (line 6)", "Service a is there already, in line 1"}},
		"an object twice, one in a list":    {service + "---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: a}\n", []string{"document 2 (line 6), item 1", "Service a"}},
		"text in a list":                    {"apiVersion: v1\nkind: List\nitems: [a]\n", []string{"item 1", "not an object"}},
		"an open directive":                 {service + "---\n{{ if .Values.x }}\n" + service, []string{"line 1", "not a template"}},
		"a directive that is none":          {"apiVersion: v1\nkind: {{ .Values.x ) }}\n", []string{"line 2", "not a template", "unexpected right paren"}},
		"a broken document after a comment in the template": {
			"{{- /* two\nlines */}}\n" + service + "---\nkind: [Pod\nx: y\n", []string{"document 2 (line 8)", "not YAML: line 8"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := NewInline(filesDigest).Resolve(t.Context(), microservice("x", c.text), nil)
			e, ok := errors.AsType[*Error](err)
			if !ok || !e.Terminal || e.RetryAfter != 0 || e.Reason != v1alpha1.ReasonInvalidResources {
				t.Fatalf("error is %#v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			if strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func TestInlineNeedsAString(t *testing.T) {
	for name, spec := range map[string]map[string]any{"nothing": {}, "a map": {"resources": map[string]any{}}} {
		t.Run(name, func(t *testing.T) {
			u := microservice("x", "")
			u.Object["spec"] = spec
			if _, err := NewInline(filesDigest).Resolve(t.Context(), u, nil); !is(err, v1alpha1.ReasonInvalidResources) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// What is refused before it is rendered must not be anything that works when it
// is rendered, and nothing may make the check fail in another way.
func FuzzInline(f *testing.F) {
	f.Add(classic)
	f.Add("---\n---\n# x\n{{- /* c */ -}}\n---\na: b\n")
	f.Add("{{ if true }}\na\n---\n{{ end -}}\n---\nkind: Pod\napiVersion: v1\nmetadata:\n  name: a\n")
	f.Add("apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: x}\n")
	f.Add("---\n---\n---\na: b")
	f.Add("a: |\n  {{ 1 }}\n----\n- x\n\r\n---\t\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := NewInline(filesDigest).Resolve(t.Context(), microservice("x", text), nil)
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.Reason != v1alpha1.ReasonInvalidResources || !e.Terminal {
				t.Fatalf("error is %#v", err)
			}
		}
		documents, splitErr := split(text)
		if splitErr != nil || strings.Contains(text, "{{") {
			return
		}
		// Without directives, the documents have to be those that Helm finds.
		var ours []string
		for _, d := range documents {
			if text := strings.TrimSpace(d.text()); strings.TrimSpace(strings.TrimPrefix(text, "---")) != "" {
				ours = append(ours, text)
			}
		}
		theirs := releaseutil.SplitManifests(text)
		for name, manifest := range theirs {
			if strings.TrimSpace(strings.TrimPrefix(manifest, "---")) == "" {
				delete(theirs, name) // of two separators in a row, Helm takes the second for a document, which is empty
			}
		}
		if len(ours) != len(theirs) {
			t.Fatalf("%d documents, Helm finds %d: %q", len(ours), len(theirs), text)
		}
		if err != nil {
			return
		}
		for _, manifest := range theirs {
			var head releaseutil.SimpleHead
			if err := yaml.Unmarshal([]byte(manifest), &head); err != nil {
				t.Fatalf("accepted, and Helm says %v: %q", err, manifest)
			}
		}
	})
}
