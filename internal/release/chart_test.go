// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

func testChart() *chart.Chart {
	sub := &chart.Chart{
		Metadata:  &chart.Metadata{APIVersion: "v2", Name: "sub", Version: "1.0.0"},
		Values:    map[string]any{"n": int64(1000000)},
		Templates: []*chart.File{{Name: "templates/sub.yaml", Data: []byte("kind: ConfigMap\napiVersion: v1\nmetadata: {name: sub}\ndata: {n: \"{{ .Values.n }}\"}\n")}},
	}
	c := &chart.Chart{
		Metadata: &chart.Metadata{
			APIVersion: "v2", Name: "top", Version: "1.0.0",
			Dependencies: []*chart.Dependency{{Name: "sub", Version: "1.0.0", Condition: "sub.enabled"}},
		},
		Values:    map[string]any{"keep": "x", "drop": "y", "sub": map[string]any{"enabled": true}},
		Templates: []*chart.File{{Name: "templates/top.yaml", Data: []byte("kind: ConfigMap\napiVersion: v1\nmetadata: {name: top}\ndata: {literal: '{{ \"{{ not a template }}\" }}', drop: '{{ .Values.drop }}'}\n")}},
	}
	c.AddDependency(sub)
	return c
}

// renderFiles renders as render does, without a cluster.
func renderFiles(t *testing.T, c *chart.Chart, values map[string]any) map[string]string {
	t.Helper()
	c, values = copyChart(c), copyValues(values)
	if err := chartutil.ProcessDependenciesWithMerge(c, values); err != nil {
		t.Fatal(err)
	}
	input, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "r"}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, input)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestCopiedChartsDoNotShareWhatHelmChanges(t *testing.T) {
	c := testChart()
	if off := renderFiles(t, c, map[string]any{"sub": map[string]any{"enabled": false}}); len(off) != 1 {
		t.Errorf("a disabled subchart renders: %v", off)
	}
	on := renderFiles(t, c, map[string]any{})
	if len(on) != 2 {
		t.Fatalf("the subchart that another release disabled is gone: %v", on)
	}
	if got := on["top/charts/sub/templates/sub.yaml"]; !strings.Contains(got, `n: "1000000"`) {
		t.Errorf("the integer is rendered as %s", got)
	}
	if len(c.Dependencies()) != 1 || len(c.Metadata.Dependencies) != 1 {
		t.Error("the chart was changed")
	}
}

func TestNullRemovesADefault(t *testing.T) {
	got := renderFiles(t, testChart(), map[string]any{"drop": nil})["top/templates/top.yaml"]
	if strings.Contains(got, "drop: 'y'") {
		t.Errorf("the default is still there: %s", got)
	}
}
