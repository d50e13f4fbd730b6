// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// charts of testdata, each with what it is there to show.
var charts = []string{
	"gated",     // objects behind booleans of values, schema and lists
	"unreached", // objects that no boolean brings
	"lookups",   // the template function lookup
	"hooks",     // hooks, of which tests are none of ours
	"cluster",   // kinds in no namespace, CRDs, kinds that are not known
	"roles",     // rights that the chart passes on
	"required",  // values that a sample has to give, and booleans that exclude each other
	"parent",    // subcharts: alias, condition, library
}

func TestRulesOfCharts(t *testing.T) {
	for _, name := range charts {
		t.Run(name, func(t *testing.T) {
			in := Input{Kinds: NewKinds()}
			if _, err := os.Stat(filepath.Join("testdata", name+".sample.yaml")); err == nil {
				in.Samples = []string{filepath.Join("testdata", name+".sample.yaml")}
			}
			for range 2 { // the same every time
				rules, messages, err := in.Chart(filepath.Join("testdata", name))
				if err != nil {
					t.Fatal(err)
				}
				golden(t, name+".golden.yaml", string(rules)+told(messages))
			}
		})
	}
}

// told are messages, a comment line each.
func told(messages []Message) string {
	var b strings.Builder
	for _, m := range messages {
		level := "warning"
		if m.Note {
			level = "note"
		}
		fmt.Fprintf(&b, "# %s: %s\n", level, m)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); go test -update rewrites it:\n%s", path, diff)
	}
}
