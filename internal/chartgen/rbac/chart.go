// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Sample is a set of values that the chart is rendered with besides its defaults.
type Sample struct {
	// Name of the sample in messages, such as its file.
	Name string
	// Values as a resource gives them.
	Values map[string]any
}

// ChartOptions say how a chart is looked at.
type ChartOptions struct {
	// Path of the chart, for messages.
	Path string
	// Samples of values.
	Samples []Sample
	// Overrides are put over all values.
	Overrides map[string]any
	// Kinds that are known besides those that the chart brings.
	Kinds *Kinds
}

// ChartRights are the rights that releases of a chart take.
type ChartRights struct {
	// objects that releases are made of, their hooks, and CRDs; lookups of the templates; and
	// what the chart's roles pass on to others.
	objects, lookups, passedOn scoped
	// Messages about what is not covered, and notes; sorted.
	Messages []Message
}

// scoped are rights within namespaces, and in the whole cluster.
type scoped struct{ namespaced, cluster rights }

func newScoped() scoped { return scoped{rights{}, rights{}} }

func (s scoped) add(r Resource, verbs ...string) {
	if r.Cluster {
		s.cluster.add(r.GroupResource, verbs...)
		return
	}
	s.namespaced.add(r.GroupResource, verbs...)
}

// analysis is the state of looking at one chart.
type analysis struct {
	chart     *chart.Chart
	opts      ChartOptions
	kinds     *Kinds
	templates *templates
	mentions  []mention
	open      []unclear
	out       *ChartRights
	// seen are the kinds that renderings made, and the messages that were given.
	seen map[schema.GroupKind]bool
	told map[string]bool
}

// Chart works out the rights that releases of the chart take. The chart is not changed.
func Chart(chrt *chart.Chart, opts ChartOptions) (*ChartRights, error) {
	defer silence()()
	parsed, err := parseTemplates(chrt, opts.Path)
	if err != nil {
		return nil, err
	}
	a := &analysis{
		chart: chrt, opts: opts, kinds: opts.Kinds.Clone(), templates: parsed,
		out:  &ChartRights{objects: newScoped(), lookups: newScoped(), passedOn: newScoped()},
		seen: map[schema.GroupKind]bool{}, told: map[string]bool{},
	}
	a.mentions, a.open = parsed.mentions()
	own, err := a.crds()
	if err != nil {
		return nil, err
	}
	a.renderings(own)
	a.unrendered()
	slices.SortFunc(a.out.Messages, func(x, y Message) int {
		return strings.Compare(fmt.Sprintf("%s:%08d:%s", x.File, x.Line, x.Text), fmt.Sprintf("%s:%08d:%s", y.File, y.Line, y.Text))
	})
	return a.out, nil
}

func (a *analysis) tell(m Message) {
	if key := m.String(); !a.told[key] {
		a.told[key] = true
		a.out.Messages = append(a.out.Messages, m)
	}
}

// crds takes in what the chart's crds/ define, and returns the API versions that the cluster serves then.
func (a *analysis) crds() ([]string, error) {
	var versions []string
	for _, crd := range a.chart.CRDObjects() {
		objects, err := decodeAll(crd.File.Data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path.Join(a.opts.Path, crd.Filename), err)
		}
		for _, obj := range objects {
			if err := a.kinds.AddCRD(obj); err != nil {
				return nil, fmt.Errorf("%s: %w", path.Join(a.opts.Path, crd.Filename), err)
			}
			r, ok := a.kinds.Resource(obj.GroupVersionKind().GroupKind())
			if !ok {
				a.unknown(place{file: path.Join(a.opts.Path, crd.Filename)}, obj.GroupVersionKind().GroupKind())
				continue
			}
			a.out.objects.add(r, crdVerbs...)
			versions = append(versions, servedVersions(obj)...)
		}
	}
	return versions, nil
}

func decodeAll(data []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		switch {
		case isEOF(err):
			return out, nil
		case err != nil:
			return nil, err
		case len(obj.Object) > 0:
			out = append(out, obj)
		}
	}
}

// servedVersions of a CRD, in the form of .Capabilities.APIVersions.
func servedVersions(crd *unstructured.Unstructured) []string {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var out []string
	for _, v := range versions {
		m, _ := v.(map[string]any)
		if name, ok := m["name"].(string); ok && m["served"] == true {
			out = append(out, group+"/"+name, group+"/"+name+"/"+kind)
		}
	}
	return out
}

// unknown tells of a kind of which only its name is known.
func (a *analysis) unknown(at place, gk schema.GroupKind) {
	if gone(gk) {
		return // no cluster serves it, so no right is of use
	}
	a.tell(Message{File: at.file, Line: at.line, Text: fmt.Sprintf(
		"how %s is served is not known, so it has no rule: add %s, with \",cluster\" behind it if it is in no namespace, or a CRD in the chart's crds/", gk, flagFor(gk))})
}

// place is where people find what was rendered: the file in the chart's folder,
// and the line if the file has one object of that kind.
func (a *analysis) place(d document) place {
	_, within, _ := strings.Cut(d.file, "/")
	out := place{file: path.Join(a.opts.Path, within)}
	for _, m := range a.mentions {
		if m.file == out.file && m.kind == d.obj.GetKind() {
			if out.line != 0 && out.line != m.line {
				return place{file: out.file}
			}
			out.line = m.line
		}
	}
	return out
}
