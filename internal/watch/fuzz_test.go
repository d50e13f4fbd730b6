// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

func FuzzParse(f *testing.F) {
	seeds, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, s := range seeds {
		data, err := os.ReadFile(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{
		"", "---\n", "[]", "- \n", "- &a [*a]\n", "- &a\n  <<: *a\n", "- !!int x\n", "? [a]\n: b\n", "- {a: b", "\t- a\n",
		guestbook, guestbook + "---\n" + guestbook, guestbook + "  overrideValues: {a[3][1].b\\.c: '{{ \"x\" | upper }}'}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		watches, err := Parse("w", data, known)
		if err != nil {
			checkErrors(t, err, len(data)+1)
			return
		}
		if len(watches) == 0 {
			t.Fatal("neither watches nor an error")
		}
		for _, w := range watches {
			gvk := w.GroupVersionKind
			if gvk.Kind == "" || len(validation.IsDNS1035Label(gvk.Version)) > 0 || (w.ChartPath == "") == (w.Source == SourceBundled) ||
				w.ValuesPath == "" || w.Rollout.MaxParallel < 1 || w.Rollout.MaxFailures < 1 || w.Line < 1 {
				t.Fatalf("accepted %+v", w)
			}
			for _, g := range w.Gates {
				if g.Name == "" || g.Mandatory == nil {
					t.Fatalf("accepted gate %+v", g)
				}
			}
			// Panics on anything that is no plain value.
			runtime.DeepCopyJSON(w.OverrideValues)
		}
	})
}

// checkErrors checks that each error is typed, one line of text, and sorted by a line that can be in the file.
func checkErrors(t *testing.T, err error, lines int) {
	t.Helper()
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		t.Fatalf("not a joined error: %v", err)
	}
	last := 0
	for _, err := range joined.Unwrap() {
		var e *Error
		switch {
		case !errors.As(err, &e):
			t.Fatalf("not an *Error: %v", err)
		case strings.Contains(e.Error(), "\n"):
			t.Fatalf("more than one line: %q", e.Error())
		case e.Line < last || e.Line > lines:
			t.Fatalf("line %d after %d, of %d: %v", e.Line, last, lines, err)
		}
		last = e.Line
	}
}
