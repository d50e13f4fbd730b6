// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The verbs that package release uses on what it releases: an object is
// created, read and patched, watched for drift and readiness, and deleted.
// Update is what an upgrade or rollback by force does, which a resource asks for
// by an annotation.
var releaseVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete"}

// A hook is deleted, waited for until it is gone, and created.
var hookVerbs = []string{"get", "create", "delete"}

// A hook that is a Job or a Pod is watched until it is through.
var waitVerbs = []string{"list", "watch"}

// What is in a chart's crds/ is created if it isn't there.
var crdVerbs = []string{"get", "create"}

// right is one verb on one resource, or on one URL.
type right struct {
	group, resource string
	// name of the only object that the right is about; empty for all.
	name string
	// url is set for a URL that is no resource; all but verb is empty then.
	url  string
	verb string
}

// rights is a set.
type rights map[right]bool

func (s rights) add(r schema.GroupResource, verbs ...string) {
	for _, verb := range verbs {
		s[right{group: r.Group, resource: r.Resource, verb: verb}] = true
	}
}

func (s rights) addAll(more rights) {
	for r := range more {
		s[r] = true
	}
}

// holds tells whether the set has the right, or a wider one.
func (s rights) holds(r right) bool {
	if s[r] {
		return true
	}
	r.name = ""
	return s[r]
}

// without returns what the other sets don't hold.
func (s rights) without(others ...rights) rights {
	out := rights{}
	for r := range s {
		if !slices.ContainsFunc(others, func(o rights) bool { return o.holds(r) }) {
			out[r] = true
		}
	}
	for r := range out { // a name adds nothing to what is held for all
		if all := r; r.name != "" {
			all.name = ""
			if out[all] {
				delete(out, r)
			}
		}
	}
	return out
}

// Rule is one rule of a role.
type Rule struct {
	Groups, Resources, Names, URLs, Verbs []string
}

// rules writes the set as few rules: resources of a group with the same verbs share one.
func (s rights) rules() []Rule {
	type subject struct{ group, resource, url string }
	type where struct {
		subject
		name string
	}
	verbs := map[where][]string{}
	for r := range s {
		at := where{subject{r.group, r.resource, r.url}, r.name}
		verbs[at] = append(verbs[at], r.verb)
	}
	// Names with the same verbs on one resource share a rule, then resources of one group.
	type named struct {
		subject
		verbs string
		all   bool
	}
	names := map[named][]string{}
	for at, v := range verbs {
		key := named{at.subject, strings.Join(sortVerbs(v), ","), at.name == ""}
		names[key] = append(names[key], at.name)
	}
	type shared struct {
		group, names, verbs string
		url                 bool
	}
	subjects := map[shared][]string{}
	for key, n := range names {
		slices.Sort(n)
		to := shared{key.group, strings.Join(n, ","), key.verbs, key.url != ""}
		subjects[to] = append(subjects[to], key.resource+key.url)
	}
	out := make([]Rule, 0, len(subjects))
	for key, list := range subjects {
		slices.Sort(list)
		rule := Rule{Verbs: strings.Split(key.verbs, ",")}
		if key.url {
			rule.URLs = list
		} else {
			rule.Groups, rule.Resources = []string{key.group}, list
		}
		if key.names != "" {
			rule.Names = strings.Split(key.names, ",")
		}
		out = append(out, rule)
	}
	slices.SortFunc(out, func(a, b Rule) int {
		return cmp.Or(slices.Compare(a.URLs, b.URLs), slices.Compare(a.Groups, b.Groups),
			slices.Compare(a.Resources, b.Resources), slices.Compare(a.Names, b.Names), slices.Compare(a.Verbs, b.Verbs))
	})
	return out
}

// sortVerbs puts verbs into the order people write them in.
func sortVerbs(verbs []string) []string {
	order := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	rank := func(v string) int {
		if i := slices.Index(order, v); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortFunc(verbs, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b)) })
	return verbs
}
