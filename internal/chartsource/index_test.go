// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/repo"
)

// bigIndex is an index as Helm writes it, with all that charts have in it.
func bigIndex(t testing.TB, charts, versions int) *repo.IndexFile {
	t.Helper()
	index := repo.NewIndexFile()
	for i := range charts {
		for v := range versions {
			md := &chart.Metadata{
				APIVersion: "v2", Name: fmt.Sprintf("chart-%d", i), Version: fmt.Sprintf("1.%d.0", v), AppVersion: "2.0",
				Description: "A chart: that\nhas \"quotes\", # hashes\n\n  - and lines that look like entries:\nchart-0:\n- version: 9.9.9\n",
				Home:        "https://example.com", Keywords: []string{"a", "b", "entries:"},
				Maintainers:  []*chart.Maintainer{{Name: "Ann", Email: "ann@example.com"}},
				Annotations:  map[string]string{"artifacthub.io/changes": strings.Repeat("- kind: added\n  description: more of it\n", 6)},
				Dependencies: []*chart.Dependency{{Name: "redis", Version: "1.x", Repository: "https://example.com"}},
			}
			if err := index.MustAdd(md, fmt.Sprintf("%s-%s.tgz", md.Name, md.Version), "https://example.com/charts", strings.Repeat("0a", 32)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return index
}

func entriesOf(t testing.TB, data []byte, name string) ([]indexEntry, bool) {
	t.Helper()
	x, err := readIndex(bytes.NewReader(data), bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	entries, found, err := x.entries(name, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return entries, found
}

func TestIndexIsReadAsHelmReadsIt(t *testing.T) {
	dir := t.TempDir()
	written := bigIndex(t, 20, 3)
	for name, write := range map[string]func(string, os.FileMode) error{"YAML": written.WriteFile, "JSON": written.WriteJSONFile} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name)
			if err := write(file, 0o600); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			x, err := scanIndex(bytes.NewReader(data))
			if err != nil || len(x.blocks) != 20 {
				t.Fatalf("%v, %v", x, err)
			}
			for chart, versions := range written.Entries {
				var want []indexEntry
				for _, v := range versions {
					want = append(want, indexEntry{Version: v.Version, URLs: v.URLs, Digest: v.Digest})
				}
				got, found := entriesOf(t, data, chart)
				if diff := cmp.Diff(want, got); diff != "" || !found {
					t.Fatalf("%s: %s", chart, diff)
				}
			}
			if _, found := entriesOf(t, data, "redis"); found {
				t.Error("a dependency is taken for a chart")
			}
			damaged := bytes.Replace(data, []byte("1.2.0"), []byte("1.3.0"), 1)
			for chart := range written.Entries {
				if _, _, e := x.entries(chart, bytes.NewReader(damaged)); e != nil {
					err = errors.Join(err, e)
				}
			}
			if !errors.Is(err, errCorrupt) {
				t.Errorf("damage is not noticed: %v", err)
			}
		})
	}
}

func TestIndexFormats(t *testing.T) {
	const entry = "  - version: 1.0.0\n    urls:\n    - shop-1.0.0.tgz\n"
	cases := map[string]string{
		"entries first":              "entries:\n  shop:\n" + entry + "apiVersion: v1\n",
		"deeper lists":               "apiVersion: v1\nentries:\n    shop:\n      - version: 1.0.0\n        urls: [shop-1.0.0.tgz]\n",
		"quoted names":               "apiVersion: v1\nentries:\n  'other': []\n  \"shop\":\n" + entry,
		"comments and blank lines":   "# made by hand\n---\napiVersion: v1\n\nentries: # all\n# nothing\n  # here\n\n  shop: # ours\n\n" + entry + "\n# end\ngenerated: x\n",
		"Windows line ends":          strings.ReplaceAll("apiVersion: v1\nentries:\n  shop:\n"+entry, "\n", "\r\n"),
		"flow style":                 "apiVersion: v1\nentries: {shop: [{version: 1.0.0, urls: [shop-1.0.0.tgz]}]}\n",
		"flow style all over":        "{apiVersion: v1, entries: {shop: [{version: 1.0.0, urls: [shop-1.0.0.tgz]}]}}\n",
		"flow style of one":          "apiVersion: v1\nentries:\n  shop: [{version: 1.0.0, urls: [shop-1.0.0.tgz]}]\n",
		"a version that is a number": "apiVersion: v1\nentries:\n  other:\n  - version: 1.0\n  shop:\n" + entry,
		"JSON":                       `{"entries": {"other": [], "shop": [{"version": "1.0.0", "urls": ["shop-1.0.0.tgz"], "x": {}}]}, "apiVersion": "v1", "generated": "x"}`,
		"no line end":                "apiVersion: v1\nentries:\n  shop:\n  - {version: 1.0.0, urls: [shop-1.0.0.tgz]}",
		"a very long line":           "apiVersion: v1\nentries:\n  other:\n  - description: " + strings.Repeat("x: ", 50_000) + "\n  shop:\n" + entry,
	}
	want := []indexEntry{{Version: "1.0.0", URLs: []string{"shop-1.0.0.tgz"}}}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			got, found := entriesOf(t, []byte(text), "shop")
			if diff := cmp.Diff(want, got); diff != "" || !found {
				t.Errorf("found %t: %s", found, diff)
			}
		})
	}
	for name, text := range map[string]string{
		"no apiVersion":           "entries:\n  shop: []\n",
		"a list":                  "- a\n- b\n",
		"text":                    "hello\n",
		"a chart twice":           "apiVersion: v1\nentries:\n  shop: []\n  shop: []\n",
		"JSON without apiVersion": `{"entries": {}}`,
		"JSON with a list":        `{"apiVersion": "v1", "entries": []}`,
	} {
		t.Run(name, func(t *testing.T) {
			if x, err := readIndex(strings.NewReader(text), strings.NewReader(text)); err == nil {
				t.Errorf("taken for an index: %+v", x)
			}
		})
	}
	if _, found := entriesOf(t, []byte("apiVersion: v1\nentries: {}\n"), "shop"); found {
		t.Error("found in an empty index")
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nentries:\n  shop:\n  - version: 1.0.0\n    urls: [a]\ngenerated: x\n"), "shop")
	f.Add([]byte(`{"apiVersion":"v1","entries":{"shop":[{"version":"1.0.0","urls":["a"]}]}}`), "shop")
	f.Add([]byte("apiVersion: v1\nentries: {a: [{version: 1}]}\n"), "a")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		x, err := readIndex(bytes.NewReader(data), bytes.NewReader(data))
		if err != nil {
			return
		}
		entries, found, err := x.entries(name, bytes.NewReader(data))
		if errors.Is(err, errCorrupt) || (!found && len(entries) > 0) {
			t.Fatalf("%v %t %v", entries, found, err)
		}
		sorted(entries)
	})
}

// TestIndexOfThousandsOfChartsTakesLittleMemory reads an index of 4,000 charts with 10 versions each.
func TestIndexOfThousandsOfChartsTakesLittleMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index.yaml")
	writeBig(t, file, 4000, 10)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x, err := readIndex(f, f)
	runtime.ReadMemStats(&after)
	if err != nil || len(x.blocks) != 4000 {
		t.Fatalf("%d charts, %v", len(x.blocks), err)
	}
	entries, found, err := x.entries("chart-3999", f)
	if err != nil || !found || len(entries) != 10 {
		t.Fatalf("%d versions, %v", len(entries), err)
	}
	allocated := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d MiB of index, %d KiB allocated to read it", info.Size()>>20, allocated>>10)
	if info.Size() < 20<<20 {
		t.Errorf("the index has only %d bytes", info.Size())
	}
	if allocated > 4<<20 {
		t.Errorf("reading an index of %d MiB allocated %d KiB", info.Size()>>20, allocated>>10)
	}
}

// writeBig writes a large index without holding it in memory.
func writeBig(t testing.TB, file string, charts, versions int) {
	t.Helper()
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	sample := filepath.Join(t.TempDir(), "sample.yaml")
	if err := bigIndex(t, 1, versions).WriteFile(sample, 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(data), "  chart-0:\n")
	body, tail, _ := strings.Cut(rest, "\ngenerated:")
	_, _ = io.WriteString(out, head)
	for i := range charts {
		_, _ = fmt.Fprintf(out, "  chart-%d:\n%s\n", i, body)
	}
	_, _ = io.WriteString(out, "generated:"+tail)
}

func BenchmarkIndex(b *testing.B) {
	file := filepath.Join(b.TempDir(), "index.yaml")
	writeBig(b, file, 4000, 10)
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f, err := os.Open(file)
			if err != nil {
				b.Fatal(err)
			}
			x, err := readIndex(f, f)
			if err != nil {
				b.Fatal(err)
			}
			if _, _, err := x.entries("chart-2000", f); err != nil {
				b.Fatal(err)
			}
			_ = f.Close()
		}
	})
	b.Run("helm", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := repo.LoadIndexFile(file); err != nil {
				b.Fatal(err)
			}
		}
	})
}
