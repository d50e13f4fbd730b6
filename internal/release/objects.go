// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/internal/dependents"
)

// writeConcurrency bounds how many objects of one kind are written at a time.
const writeConcurrency = 8

// object is one object of a release and where it lives.
type object struct {
	mapping *meta.RESTMapping
	obj     *unstructured.Unstructured
}

// objectKey tells the objects of a release apart, whatever version of its API an object is written in.
type objectKey struct {
	schema.GroupKind
	namespace, name string
}

func (o object) key() objectKey {
	return objectKey{o.mapping.GroupVersionKind.GroupKind(), o.obj.GetNamespace(), o.obj.GetName()}
}

func (o object) namespaced() bool { return o.mapping.Scope.Name() == meta.RESTScopeNameNamespace }

func (o object) ref() dependents.Ref {
	return dependents.Ref{Mapping: o.mapping, Namespace: o.obj.GetNamespace(), Name: o.obj.GetName()}
}

// print tells contents of the object apart.
func (o object) print() uint64 {
	h := fnv.New64a()
	_ = json.NewEncoder(h).Encode(o.obj.Object) // JSON it came from; the keys of its maps are sorted
	return h.Sum64()
}

// String names the object for people: kind, then name with namespace where it has one.
func (o object) String() string {
	name := o.obj.GetName()
	if o.namespaced() {
		name = o.obj.GetNamespace() + "/" + name
	}
	return o.mapping.GroupVersionKind.Kind + " " + name
}

// locate finds out where an object lives, and puts it into the release's
// namespace where it has to be in one and names none.
func (s *Session) locate(obj *unstructured.Unstructured) (object, error) {
	gvk := obj.GroupVersionKind()
	mapping, err := s.clients.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return object{}, fmt.Errorf("%s %s: %w", gvk.Kind, obj.GetName(), err)
	}
	o := object{mapping: mapping, obj: obj}
	switch {
	case !o.namespaced():
		obj.SetNamespace("")
	case obj.GetNamespace() == "":
		obj.SetNamespace(s.change.Namespace)
	}
	return o, nil
}

// parse returns the objects of a manifest, marked as the release's own. Objects
// that cannot be there, since their kind is not served (any more) or they have
// no name, are an error unless absent takes them.
func (s *Session) parse(manifest string, absent func(*unstructured.Unstructured)) ([]object, error) {
	parsed, err := parseManifest(strings.NewReader(manifest))
	if err != nil {
		return nil, terminal(CauseRender, err)
	}
	objects := make([]object, 0, len(parsed))
	seen := make(map[objectKey]bool, len(parsed))
	for _, obj := range parsed {
		if obj.GetName() == "" {
			if absent == nil {
				return nil, terminal(CauseRender, fmt.Errorf("the chart makes a %s without a name", obj.GetKind()))
			}
			absent(obj)
			continue
		}
		o, err := s.locate(obj)
		if meta.IsNoMatchError(err) && absent != nil {
			absent(obj)
			continue
		}
		if err != nil {
			return nil, err
		}
		if seen[o.key()] {
			return nil, terminal(CauseRender, fmt.Errorf("the chart makes %s more than once", o))
		}
		seen[o.key()] = true
		if err := stamp(o, s.change); err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// watch has the objects' kinds watched where they are.
func (s *Session) watch(objects []object) error {
	type place struct {
		kind      schema.GroupVersionKind
		namespace string
	}
	seen := map[place]bool{}
	var refs []dependents.Ref
	for _, o := range objects {
		if at := (place{o.mapping.GroupVersionKind, o.obj.GetNamespace()}); !seen[at] {
			seen[at] = true
			refs = append(refs, o.ref())
		}
	}
	if len(refs) == 0 {
		return nil
	}
	return s.engine.tracker.Watch(s.ctx, s.change.owner(), s.change.Identity, refs)
}

// within returns the objects in the owner's own namespace.
func (s *Session) within(objects []object) []object {
	var out []object
	for _, o := range objects {
		if o.namespaced() && o.obj.GetNamespace() == s.change.Owner.GetNamespace() {
			out = append(out, o)
		}
	}
	return out
}

// uninstallOrder sorts objects the way they are deleted: webhooks first, since
// they may refuse all that follows once what answers for them is gone, then as Helm does.
func uninstallOrder(objects []object) []object {
	rank := make(map[string]int, len(releaseutil.UninstallOrder))
	for i, kind := range releaseutil.UninstallOrder {
		rank[kind] = i + 1
	}
	of := func(o object) int {
		gk := o.mapping.GroupVersionKind.GroupKind()
		if gk.Group == "admissionregistration.k8s.io" {
			return 0
		}
		if r, ok := rank[gk.Kind]; ok {
			return r
		}
		return len(rank) + 1
	}
	out := append([]object(nil), objects...)
	sort.SliceStable(out, func(i, j int) bool { return of(out[i]) < of(out[j]) })
	return out
}

// eachKind calls f for every index of the list: one kind after the other, the
// objects of one kind side by side. All of a kind are tried; the errors are joined.
func eachKind(list []object, f func(i int) error) error {
	for start := 0; start < len(list); {
		end := start + 1
		for end < len(list) && list[end].mapping.GroupVersionKind == list[start].mapping.GroupVersionKind {
			end++
		}
		errs := make([]error, end-start)
		var g errgroup.Group
		g.SetLimit(writeConcurrency)
		for i := start; i < end; i++ {
			g.Go(func() error {
				errs[i-start] = f(i)
				return nil
			})
		}
		_ = g.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		start = end
	}
	return nil
}

// sortedByKey puts objects that come from a map into an order of their own.
func sortedByKey(objects []object) []object {
	slices.SortFunc(objects, func(a, b object) int {
		x, y := a.key(), b.key()
		return cmp.Or(strings.Compare(x.String(), y.String()),
			strings.Compare(x.namespace, y.namespace), strings.Compare(x.name, y.name))
	})
	return objects
}
