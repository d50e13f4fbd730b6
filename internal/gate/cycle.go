// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// maxResources bounds how many resources are read to find a cycle.
const maxResources = 64

// circle names the cycle that the dependency leads into, as in "a -> b -> a";
// empty if it leads into none. A cycle that does not go through the resource
// itself counts too: it waits for it all the same. Only mandatory gates hold, so
// only they are followed, and only to where the resource's own gates may look.
func (e dependencyReady) circle(ctx context.Context, change Change, dependency Ref) string {
	s := search{evaluator: e, change: change, seen: map[Ref]bool{}}
	self := Ref{GroupVersionKind: change.kind(), Namespace: change.Namespace, Name: change.Name}
	return s.follow(ctx, dependency, []Ref{self})
}

// search is one look for a cycle, depth first.
type search struct {
	evaluator dependencyReady
	change    Change
	seen      map[Ref]bool
}

func (s *search) follow(ctx context.Context, to Ref, path []Ref) string {
	if i := slices.IndexFunc(path, func(r Ref) bool { return sameObject(r, to) }); i >= 0 {
		return circleText(append(path[i:], to))
	}
	if s.seen[objectOf(to)] || len(s.seen) >= maxResources || ctx.Err() != nil {
		return ""
	}
	s.seen[objectOf(to)] = true
	path = append(slices.Clone(path), to)
	for _, next := range s.dependencies(ctx, to) {
		if found := s.follow(ctx, next, path); found != "" {
			return found
		}
	}
	return ""
}

// dependencies are what the mandatory gates of a resource wait for.
func (s *search) dependencies(ctx context.Context, of Ref) []Ref {
	gk := of.GroupVersionKind.GroupKind()
	if !s.evaluator.ours(s.change, gk) {
		return nil
	}
	var kind []v1alpha1.Gate
	if s.evaluator.kindGates != nil {
		if gates, ok := s.evaluator.kindGates(gk); ok {
			kind = gates
		}
	}
	obj, err := s.change.reader().Object(ctx, of)
	if err != nil {
		return nil
	}
	gates, _ := Merge(kind, ownGates(obj))
	var refs []Ref
	for _, g := range gates {
		if g.Type != v1alpha1.GateDependencyReady || !mandatory(g) {
			continue
		}
		if ref, err := dependencyOf(g, of); err == nil && s.change.home(ref.Namespace) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// ownGates are the gates in a resource's spec. Those that can't be read are left out.
func ownGates(obj *unstructured.Unstructured) []v1alpha1.Gate {
	list, _, _ := unstructured.NestedSlice(obj.Object, "spec", v1alpha1.GatesField)
	var gates []v1alpha1.Gate
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		var g v1alpha1.Gate
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &g); err == nil {
			gates = append(gates, g)
		}
	}
	return gates
}

func sameObject(a, b Ref) bool { return objectOf(a) == objectOf(b) }

// objectOf is the object alone, whatever version of its kind it is read in.
func objectOf(r Ref) Ref {
	gk := r.GroupVersionKind.GroupKind()
	return Ref{GroupVersionKind: schema.GroupVersionKind{Group: gk.Group, Kind: gk.Kind}, Namespace: r.Namespace, Name: r.Name}
}

// circleText names the resources, with kind and namespace where these differ.
func circleText(path []Ref) string {
	kinds, namespaces := false, false
	for _, r := range path {
		kinds = kinds || r.GroupVersionKind.GroupKind() != path[0].GroupVersionKind.GroupKind()
		namespaces = namespaces || r.Namespace != path[0].Namespace
	}
	names := make([]string, 0, len(path))
	for _, r := range path {
		name := r.Name
		if namespaces {
			name = r.Namespace + "/" + name
		}
		if kinds {
			name = r.GroupVersionKind.Kind + " " + name
		}
		names = append(names, name)
	}
	return strings.Join(names, " -> ")
}
