// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"path"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"

	"github.com/chartgate/chartgate/internal/identity"
)

// notesFile is the template whose output Helm shows to people and doesn't apply.
const notesFile = "NOTES.txt"

// rendering is the outcome of rendering a chart once.
type rendering struct {
	// notes of the chart for people.
	notes string
	// manifest as Helm stores it: all objects but hooks, in install order.
	manifest string
	// hooks of the chart.
	hooks []*helmrelease.Hook
}

// render renders the change's chart as Helm would. Errors are terminal: they
// come from values, schema or templates, unless a lookup could not be answered.
func render(ctx context.Context, clients *identity.Clients, change Change, revision int, upgrade bool) (*rendering, error) {
	caps, err := clients.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	own, err := crdVersions(change.Chart)
	if err != nil {
		return nil, err
	}
	caps.APIVersions = append(caps.APIVersions, own...)
	chrt, values := copyChart(change.Chart), copyValues(change.Values)
	if err := chartutil.ProcessDependenciesWithMerge(chrt, values); err != nil {
		return nil, terminal(CauseValues, fmt.Errorf("dependencies of chart %s: %w", chrt.Name(), err))
	}
	if v := chrt.Metadata.KubeVersion; v != "" && !chartutil.IsCompatibleRange(v, caps.KubeVersion.String()) {
		return nil, terminal(CauseRender, fmt.Errorf("chart %s requires Kubernetes %s, and this cluster is %s", chrt.Name(), v, caps.KubeVersion))
	}
	options := chartutil.ReleaseOptions{
		Name:      change.Name,
		Namespace: change.Namespace,
		Revision:  revision,
		IsInstall: !upgrade,
		IsUpgrade: upgrade,
	}
	input, err := chartutil.ToRenderValues(chrt, values, options, caps)
	if err != nil {
		return nil, terminal(CauseValues, cleanSchemaError(err))
	}
	lookups := &lookupClients{ctx: ctx, clients: clients}
	files, err := engine.RenderWithClientProvider(chrt, input, lookups)
	if lookups.failed != nil {
		return nil, lookups.failed
	}
	if err != nil {
		return nil, terminal(CauseRender, err)
	}
	return sortRendered(chrt, files)
}

// sortRendered splits rendered files into hooks and a manifest, as Helm does.
func sortRendered(chrt *chart.Chart, files map[string]string) (*rendering, error) {
	out := &rendering{}
	toSort := map[string]string{}
	for name, content := range files {
		if path.Base(name) == notesFile {
			if name == path.Join(chrt.Name(), "templates", notesFile) {
				out.notes = content
			}
			continue
		}
		if strings.TrimSpace(content) == "" {
			continue
		}
		toSort[name] = content
	}
	hooks, manifests, err := releaseutil.SortManifests(toSort, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, terminal(CauseRender, err)
	}
	var b strings.Builder
	for _, m := range manifests {
		fmt.Fprintf(&b, "---\n# Source: %s\n%s\n", m.Name, m.Content)
	}
	sort.SliceStable(hooks, func(i, j int) bool { return hooks[i].Path < hooks[j].Path })
	out.manifest, out.hooks = b.String(), hooks
	return out, nil
}

// sameAs tells whether the rendering is what the release holds already.
func (r *rendering) sameAs(rel *helmrelease.Release) bool {
	return r.manifest == rel.Manifest && r.sameHooks(rel)
}

func (r *rendering) sameHooks(rel *helmrelease.Release) bool {
	if len(r.hooks) != len(rel.Hooks) {
		return false
	}
	stored := make(map[string]int, len(rel.Hooks))
	for _, h := range rel.Hooks {
		stored[h.Path+"\x00"+h.Manifest]++
	}
	for _, h := range r.hooks {
		key := h.Path + "\x00" + h.Manifest
		if stored[key] == 0 {
			return false
		}
		stored[key]--
	}
	return true
}

// copyHooks returns hooks for a release to keep: running them writes into them.
func (r *rendering) copyHooks() []*helmrelease.Hook {
	out := make([]*helmrelease.Hook, 0, len(r.hooks))
	for _, h := range r.hooks {
		hook := *h
		out = append(out, &hook)
	}
	return out
}
