// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
)

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func noDigest(*chart.Chart) string { return "digest" }

func TestLoadBundledKeepsIntegers(t *testing.T) {
	b, err := LoadBundled(write(t, map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: c\nversion: 1.0.0\n",
		"values.yaml": "big: 1000000\nmax: 9223372036854775807\nhalf: 0.5\nlist: [1]\nnothing: null\n",
	}), noDigest)
	if err != nil {
		t.Fatal(err)
	}
	v := b.Chart().Values
	if v["big"] != int64(1000000) || v["max"] != int64(9223372036854775807) || v["half"] != 0.5 || v["nothing"] != nil {
		t.Errorf("values: %#v", v)
	}
	if list, ok := v["list"].([]any); !ok || list[0] != int64(1) {
		t.Errorf("list: %#v", v["list"])
	}
}

func TestLoadBundledRefuses(t *testing.T) {
	cases := map[string]struct {
		files map[string]string
		want  string
	}{
		"a library chart":           {map[string]string{"Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\ntype: library\n"}, "library"},
		"a chart without a version": {map[string]string{"Chart.yaml": "apiVersion: v2\nname: c\n"}, "version"},
		"a dependency that is not there": {map[string]string{
			"Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\ndependencies: [{name: redis, version: 1.0.0, repository: x}]\n",
		}, "helm dependency build"},
		"no chart at all": {nil, "Chart.yaml"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := LoadBundled(write(t, c.files), noDigest); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestReservedKeys(t *testing.T) {
	c := &chart.Chart{Values: map[string]any{"gates": nil}, Schema: []byte(`{"properties":{"release":{}}}`)}
	if got := ReservedKeys(c, "gates", "release", "other"); len(got) != 2 {
		t.Errorf("clashes: %v", got)
	}
}
