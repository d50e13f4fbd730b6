// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"fmt"
	"io"
	"log"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// What releases are called while they are only rendered. No chart has such names of its own.
const (
	releaseName      = "chartgen-release"
	releaseNamespace = "chartgen-namespace"
)

// notesFile is the template whose output Helm shows to people and doesn't apply.
const notesFile = "NOTES.txt"

// cluster is what a rendering takes for the cluster.
type cluster struct {
	version string
	// offered are API versions beyond those of Kubernetes itself, such as monitoring.coreos.com/v1.
	offered []string
	// found says whether lookups find what they ask for.
	found bool
	// upgrade says whether it is an upgrade that is rendered.
	upgrade bool
}

// Versions of Kubernetes that charts are rendered for.
const (
	oldestVersion = "v1.30.0"
	newestVersion = "v1.99.0"
)

// document is one rendered object and what it is to Helm.
type document struct {
	obj *unstructured.Unstructured
	// file it was rendered from, as the chart names it, such as thing/templates/all.yaml.
	file string
	hook bool
	// test is true for a hook of helm test, which no operator runs.
	test bool
}

// rendering is what came of one try.
type rendering struct {
	documents []document
	asked     map[lookedUp]bool
}

// renderer renders one chart.
type renderer struct {
	chart *chart.Chart
	kinds *Kinds
	// own are the API versions that the chart's crds/ make the cluster serve.
	own []string
}

// render renders the chart as package release does, without a cluster.
func (r renderer) render(values map[string]any, on cluster) (*rendering, error) {
	chrt := copyChart(r.chart)
	values = copyTree(values)
	if err := chartutil.ProcessDependenciesWithMerge(chrt, values); err != nil {
		return nil, fmt.Errorf("dependencies: %w", err)
	}
	options := chartutil.ReleaseOptions{
		Name: releaseName, Namespace: releaseNamespace, Revision: 1, IsInstall: !on.upgrade, IsUpgrade: on.upgrade,
	}
	if on.upgrade {
		options.Revision = 2
	}
	input, err := chartutil.ToRenderValues(chrt, values, options, r.capabilities(on))
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	asked := &lookups{kinds: r.kinds, found: on.found, asked: map[lookedUp]bool{}}
	files, err := engine.RenderWithClientProvider(chrt, input, asked)
	if err != nil {
		return nil, err
	}
	documents, err := sortRendered(files)
	if err != nil {
		return nil, err
	}
	return &rendering{documents: documents, asked: asked.asked}, nil
}

func (r renderer) capabilities(on cluster) *chartutil.Capabilities {
	caps := chartutil.DefaultCapabilities.Copy()
	version, err := chartutil.ParseKubeVersion(on.version)
	if err == nil {
		caps.KubeVersion = *version
	}
	caps.APIVersions = slices.Concat(builtinVersions(), r.own, on.offered)
	return caps
}

// builtinVersions are the API versions that Kubernetes itself serves, as charts
// ask for them: group and version, and these with each kind.
func builtinVersions() chartutil.VersionSet {
	seen := map[string]bool{}
	for gvk := range clientgoscheme.Scheme.AllKnownTypes() {
		if gone(gvk.GroupKind()) || gvk.Group == "policy" && gvk.Version == "v1beta1" {
			continue
		}
		gv := gvk.GroupVersion().String()
		seen[gv], seen[gv+"/"+gvk.Kind] = true, true
	}
	for _, v := range []string{crdGroup + "/v1", crdGroup + "/v1/" + crdKind, "apiregistration.k8s.io/v1", "apiregistration.k8s.io/v1/APIService"} {
		seen[v] = true
	}
	return sortedKeys(seen)
}

// sortRendered returns the objects in rendered files. Helm's own sorting tells hooks from the rest.
func sortRendered(files map[string]string) ([]document, error) {
	toSort := map[string]string{}
	for name, content := range files {
		if path.Base(name) != notesFile && strings.TrimSpace(content) != "" {
			toSort[name] = content
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(toSort, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	var out []document
	for _, m := range manifests {
		docs, err := parseObjects(m.Content, document{file: m.Name})
		if err != nil {
			return nil, err
		}
		out = append(out, docs...)
	}
	for _, h := range hooks {
		test := !slices.ContainsFunc(h.Events, func(e release.HookEvent) bool { return e != release.HookTest })
		docs, err := parseObjects(h.Manifest, document{file: h.Path, hook: true, test: test})
		if err != nil {
			return nil, err
		}
		out = append(out, docs...)
	}
	return out, nil
}

// parseObjects returns the objects of one YAML document, which is one object or a list of them.
func parseObjects(content string, as document) ([]document, error) {
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(content), &fields); err != nil {
		return nil, fmt.Errorf("%s: %w", as.file, err)
	}
	if len(fields) == 0 {
		return nil, nil
	}
	obj := &unstructured.Unstructured{Object: fields}
	if obj.GetKind() == "" {
		return nil, fmt.Errorf("%s: a document without a kind", as.file)
	}
	if !obj.IsList() {
		as.obj = obj
		return []document{as}, nil
	}
	var out []document
	err := obj.EachListItem(func(item runtime.Object) error {
		one := as
		one.obj, _ = item.(*unstructured.Unstructured)
		out = append(out, one)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", as.file, err)
	}
	return out, nil
}

// silence turns off what Helm's engine prints while it renders, until the function it returns is called.
func silence() func() {
	before := log.Writer()
	log.SetOutput(io.Discard)
	return func() { log.SetOutput(before) }
}
