// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

// crdTimeout bounds the wait for a chart's CRDs to be served.
const crdTimeout = time.Minute

// installCRDs makes the CRDs of the chart's crds/ folders that do not exist
// yet, and waits until they are served. As with Helm, existing ones are left
// as they are and none is ever deleted with a release.
func (s *Session) installCRDs(ctx context.Context) error {
	crds := s.change.Chart.CRDObjects()
	if len(crds) == 0 {
		return nil
	}
	a := s.applier(ctx, true)
	var made []object
	for _, crd := range crds {
		parsed, err := parseManifest(bytes.NewReader(crd.File.Data))
		if err != nil {
			return terminal(CauseRender, fmt.Errorf("%s: %w", crd.Filename, err))
		}
		for _, obj := range parsed {
			o, err := s.locate(obj)
			if err != nil {
				return err
			}
			live, err := a.get(o)
			if live != nil || apierrors.IsForbidden(err) && s.serves(obj) {
				continue // who may not look at CRDs can still see that the API server serves this one
			}
			if err != nil {
				return err
			}
			if _, err := a.create(o); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
			made = append(made, o)
		}
	}
	if len(made) == 0 {
		return nil
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, crdTimeout, true, func(context.Context) (bool, error) {
		for _, o := range made {
			live, err := a.get(o)
			if err != nil || live == nil || !established(live) {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the chart's CRDs to be served: %w", err)
	}
	return nil
}

// serves tells whether the API server serves all versions of the CRD.
func (s *Session) serves(crd *unstructured.Unstructured) bool {
	versions := servedVersions(crd)
	for _, gvk := range versions {
		if _, err := s.clients.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version); err != nil {
			return false
		}
	}
	return len(versions) > 0
}

// servedVersions are the versions that a CRD says to serve.
func servedVersions(crd *unstructured.Unstructured) []schema.GroupVersionKind {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var out []schema.GroupVersionKind
	for _, v := range versions {
		m, _ := v.(map[string]any)
		if name, ok := m["name"].(string); ok && m["served"] == true {
			out = append(out, schema.GroupVersionKind{Group: group, Version: name, Kind: kind})
		}
	}
	return out
}

// crdVersions returns the API versions that the chart's own crds/ will serve,
// in the form of .Capabilities.APIVersions: a change is rendered before they
// are made, and is to be rendered the same after.
func crdVersions(c *chart.Chart) (chartutil.VersionSet, error) {
	var out chartutil.VersionSet
	for _, crd := range c.CRDObjects() {
		parsed, err := parseManifest(bytes.NewReader(crd.File.Data))
		if err != nil {
			return nil, terminal(CauseRender, fmt.Errorf("%s: %w", crd.Filename, err))
		}
		for _, obj := range parsed {
			for _, gvk := range servedVersions(obj) {
				out = append(out, gvk.GroupVersion().String(), gvk.GroupVersion().String()+"/"+gvk.Kind)
			}
		}
	}
	return out, nil
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
			return true
		}
	}
	return false
}
