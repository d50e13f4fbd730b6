// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	helmrelease "helm.sh/helm/v3/pkg/release"
)

func TestChangeDigestCoversWhatDecidesTheObjects(t *testing.T) {
	base := func() Change {
		return Change{Name: "one", Namespace: "ns", ChartDigest: "c1", Values: map[string]any{"a": int64(1), "b": map[string]any{"c": "d"}}}
	}
	digest := func(change func(*Change)) string {
		c := base()
		change(&c)
		c, err := c.WithDigest()
		if err != nil {
			t.Fatal(err)
		}
		return c.Digest()
	}
	same := digest(func(*Change) {})
	different := map[string]func(*Change){
		"chart":               func(c *Change) { c.ChartDigest = "c2" },
		"name":                func(c *Change) { c.Name = "two" },
		"namespace":           func(c *Change) { c.Namespace = "other" },
		"a value":             func(c *Change) { c.Values["a"] = int64(2) },
		"a null":              func(c *Change) { c.Values["a"] = nil },
		"an empty map":        func(c *Change) { c.Values["b"] = map[string]any{} },
		"a string for an int": func(c *Change) { c.Values["a"] = "1" },
	}
	for what, change := range different {
		if digest(change) == same {
			t.Errorf("another %s gives the same digest", what)
		}
	}
	equal := map[string]func(*Change){
		"the timeout":   func(c *Change) { c.Settings.Timeout = 1 },
		"the history":   func(c *Change) { c.Settings.MaxHistory = 3 },
		"another order": func(c *Change) { c.Values = map[string]any{"b": map[string]any{"c": "d"}, "a": int64(1)} },
	}
	for what, change := range equal {
		if digest(change) != same {
			t.Errorf("%s changes the digest", what)
		}
	}
}

func TestChartDigestIsOfTheFiles(t *testing.T) {
	file := func(name, data string) *chart.File { return &chart.File{Name: name, Data: []byte(data)} }
	a := ChartDigest(&chart.Chart{Raw: []*chart.File{file("x", "1"), file("y", "2")}})
	if b := ChartDigest(&chart.Chart{Raw: []*chart.File{file("y", "2"), file("x", "1")}}); a != b {
		t.Error("the order of files counts")
	}
	if b := ChartDigest(&chart.Chart{Raw: []*chart.File{file("x", "12"), file("y", "")}}); a == b {
		t.Error("a byte that moves to another file does not count")
	}
}

func TestPayloadDigestCoversManifestAndHooks(t *testing.T) {
	rel := func(manifest, hook string) string {
		return PayloadDigest(&helmrelease.Release{Manifest: manifest, Hooks: []*helmrelease.Hook{{Path: "h", Manifest: hook}}})
	}
	if rel("a", "b") == rel("a", "c") || rel("a", "b") == rel("b", "b") {
		t.Error("the payload digest does not tell payloads apart")
	}
}
