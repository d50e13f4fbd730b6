// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestNames(t *testing.T) {
	book := schema.GroupKind{Group: "apps.chartgate.dev", Kind: "Guestbook"}
	web := schema.GroupKind{Group: "apps.chartgate.dev", Kind: "WebApp"}
	cases := map[string]struct {
		name  string
		count int
		first string
	}{
		"a name that fits is taken as it is":        {name: "blog", count: 2, first: "blog"},
		"a name of 53 characters fits":              {name: strings.Repeat("a", 53), count: 2, first: strings.Repeat("a", 53)},
		"a name of 54 characters is shortened":      {name: strings.Repeat("a", 54), count: 1},
		"a cut never leaves a dash before the hash": {name: strings.Repeat("a", 43) + "---." + strings.Repeat("b", 60), count: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			names := Names(book, c.name)
			if len(names) != c.count {
				t.Fatalf("%d names: %v", len(names), names)
			}
			if c.first != "" && names[0] != c.first {
				t.Errorf("first name is %s", names[0])
			}
			for _, n := range names {
				if err := chartutil.ValidateReleaseName(n); err != nil {
					t.Errorf("Helm refuses %q: %v", n, err)
				}
			}
			last := names[len(names)-1]
			if other := Names(web, c.name); other[len(other)-1] == last {
				t.Errorf("two kinds share the name %s", last)
			}
			if again := Names(book, c.name); again[len(again)-1] != last {
				t.Errorf("the name is not stable: %s, then %s", last, again[len(again)-1])
			}
		})
	}
}

func TestOwnerLabelFitsALabel(t *testing.T) {
	long := OwnerLabel(schema.GroupKind{Group: strings.Repeat("g", 80), Kind: "K"})
	other := OwnerLabel(schema.GroupKind{Group: strings.Repeat("g", 81), Kind: "K"})
	if len(long) > 63 || len(other) > 63 || long == other {
		t.Errorf("labels %q and %q", long, other)
	}
}
