// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/chartgate/chartgate/internal/dependents"
)

func TestNames(t *testing.T) {
	named := func(kind, namespace, name string) dependents.Owner {
		return dependents.Owner{
			GroupKind:      schema.GroupKind{Group: "apps.chartgate.dev", Kind: kind},
			NamespacedName: types.NamespacedName{Namespace: namespace, Name: name},
		}
	}
	book := func(name string) []string { return Names(named("Guestbook", "ns", name), "ns") }
	web := func(name string) []string { return Names(named("WebApp", "ns", name), "ns") }
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
			names := book(c.name)
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
			if other := web(c.name); other[len(other)-1] == last {
				t.Errorf("two kinds share the name %s", last)
			}
			if again := book(c.name); again[len(again)-1] != last {
				t.Errorf("the name is not stable: %s, then %s", last, again[len(again)-1])
			}
			from := map[string]string{last: "its own namespace"}
			for _, ns := range []string{"team-a", "team-b"} {
				names := Names(named("Guestbook", ns, c.name), "ns")
				hashed := names[len(names)-1]
				if other, taken := from[hashed]; taken {
					t.Errorf("resources of %s and %s share the name %s in a third namespace", other, ns, hashed)
				}
				from[hashed] = ns
			}
		})
	}
}

func TestOwnerLabelTellsOwnersApart(t *testing.T) {
	kind := func(group string) schema.GroupKind { return schema.GroupKind{Group: group, Kind: "HelmApp"} }
	in := func(namespace string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: "shop"}
	}
	long := strings.Repeat("g", 80)
	seen := map[string]string{}
	for what, label := range map[string]string{
		"its own namespace":  OwnerLabel(dependents.Owner{GroupKind: kind("apps.chartgate.dev"), NamespacedName: in("prod")}, "prod"),
		"from a":             OwnerLabel(dependents.Owner{GroupKind: kind("apps.chartgate.dev"), NamespacedName: in("a")}, "prod"),
		"from b":             OwnerLabel(dependents.Owner{GroupKind: kind("apps.chartgate.dev"), NamespacedName: in("b")}, "prod"),
		"from far":           OwnerLabel(dependents.Owner{GroupKind: kind("apps.chartgate.dev"), NamespacedName: in(strings.Repeat("n", 63))}, "prod"),
		"from farther":       OwnerLabel(dependents.Owner{GroupKind: kind("apps.chartgate.dev"), NamespacedName: in(strings.Repeat("n", 62))}, "prod"),
		"a long group":       OwnerLabel(dependents.Owner{GroupKind: kind(long), NamespacedName: in("prod")}, "prod"),
		"another long group": OwnerLabel(dependents.Owner{GroupKind: kind(long + "h"), NamespacedName: in("prod")}, "prod"),
	} {
		if problems := validation.IsValidLabelValue(label); len(problems) > 0 {
			t.Errorf("%s: %q: %v", what, label, problems)
		}
		if other, taken := seen[label]; taken {
			t.Errorf("%s and %s share the label %q", what, other, label)
		}
		seen[label] = what
	}
	if _, ok := seen["helmapp.apps.chartgate.dev"]; !ok {
		t.Errorf("labels %v", seen)
	}
}
