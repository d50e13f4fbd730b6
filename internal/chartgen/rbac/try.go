// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/internal/translate"
)

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

// renderings renders the chart under its defaults and every sample, each as it is
// and with booleans switched, and takes in what comes of it. What doesn't render is
// not released either, and adds nothing.
func (a *analysis) renderings(own []string) {
	asked := a.templates.askedVersions()
	r := renderer{chart: a.chart, kinds: a.kinds, own: own}
	everything := cluster{version: newestVersion, offered: asked}
	var broken error
	rendered := false
	for i, sample := range append([]Sample{{Name: a.opts.Path}}, a.opts.Samples...) {
		values := translate.Override(sample.Values, a.opts.Overrides)
		fits, err := a.try(r, values, everything, cluster{version: oldestVersion}, cluster{version: newestVersion, offered: asked, upgrade: true},
			cluster{version: newestVersion, offered: asked, found: true, upgrade: true})
		rendered = rendered || fits
		switch {
		case err != nil && i == 0:
			broken = err // as it should be, where values are required
		case err != nil:
			a.tell(Message{File: sample.Name, Text: "the chart " + a.opts.Path + " does not render with it: " + oneLine(err.Error())})
		}
		a.switches(r, values, everything)
	}
	if !rendered {
		a.tell(Message{File: a.opts.Path, Text: "the chart renders with none of the values given, so its rules come from reading its templates alone; " +
			"add a sample of good values (--sample). With the chart's own: " + oneLine(fmt.Sprint(broken))})
	}
}

// try takes in renderings of the values, and tells whether there is one. The error is that of the first.
func (a *analysis) try(r renderer, values map[string]any, on ...cluster) (fits bool, first error) {
	for i, c := range on {
		out, err := r.render(values, c)
		if err == nil {
			err = a.take(out)
		}
		if err == nil {
			fits = true
		} else if i == 0 {
			first = err
		}
	}
	return fits, first
}

// switches renders the values with each boolean switched by itself, and with as
// many of them on as go together.
func (a *analysis) switches(r renderer, values map[string]any, on cluster) {
	all := toggles(a.chart, values)
	full := merge(defaults(a.chart), values)
	for _, t := range all {
		_, _ = a.try(r, with(values, full, t.path, !t.on), on)
	}
	every := values
	for _, t := range all {
		every = with(every, full, t.path, true)
	}
	both := []cluster{on, {version: on.version, offered: on.offered, found: true, upgrade: true}}
	if fits, _ := a.try(r, every, both...); fits || len(all) == 0 {
		return
	}
	// Some exclude each other: what goes together is found one by one.
	every = values
	for _, t := range all {
		if more := with(every, full, t.path, true); !t.on {
			if fits, _ := a.try(r, more, on); fits {
				every = more
			}
		}
	}
	_, _ = a.try(r, every, both...)
}

// take adds what the rendering shows that releases take.
func (a *analysis) take(out *rendering) error {
	for _, d := range out.documents { // first: their kinds may be used by the others
		if err := a.kinds.AddCRD(d.obj); err != nil {
			return err
		}
	}
	made := func(kind, name string) bool {
		return slices.ContainsFunc(out.documents, func(d document) bool {
			return !d.test && d.obj.GroupVersionKind().Group == rbacGroup && d.obj.GetKind() == kind && d.obj.GetName() == name
		})
	}
	for _, d := range out.documents {
		gk := d.obj.GroupVersionKind().GroupKind()
		a.seen[gk] = true
		if d.test {
			continue
		}
		at := a.place(d)
		r, ok := a.kinds.Resource(gk)
		if !ok {
			a.unknown(at, gk)
			continue
		}
		a.out.objects.add(r, verbsFor(d, gk)...)
		a.elsewhere(d.obj, r, at)
		passed := passedOn{namespaced: a.out.passedOn.namespaced, cluster: a.out.passedOn.cluster}
		if err := passed.passOn(d.obj, at, a.templates.text(at.file), made); err != nil {
			return err
		}
		for _, m := range passed.messages {
			a.tell(m)
		}
	}
	for l := range out.asked {
		a.lookup(place{file: a.opts.Path}, l)
	}
	return nil
}

// verbsFor are the verbs used on a rendered object.
func verbsFor(d document, gk schema.GroupKind) []string {
	switch {
	case !d.hook:
		return releaseVerbs
	case gk == schema.GroupKind{Group: "batch", Kind: "Job"}, gk == schema.GroupKind{Kind: "Pod"}:
		return slices.Concat(hookVerbs, waitVerbs)
	default:
		return hookVerbs
	}
}

// elsewhere notes an object in a namespace that the chart names itself.
func (a *analysis) elsewhere(obj *unstructured.Unstructured, r Resource, at place) {
	if ns := obj.GetNamespace(); ns != "" && ns != releaseNamespace && !r.Cluster {
		a.tell(Message{File: at.file, Line: at.line, Note: true, Text: fmt.Sprintf(
			"its %s is in namespace %s: an operator that watches other namespaces alone has no right there", obj.GetKind(), shownName(ns))})
	}
}

// lookup adds what a lookup takes.
func (a *analysis) lookup(at place, l lookedUp) {
	r, ok := a.kinds.Resource(l.kind)
	if !ok {
		a.unknown(at, l.kind)
		return
	}
	a.out.lookups.add(r, l.verb)
	if !r.Cluster && l.namespace == "" {
		a.tell(Message{File: at.file, Line: at.line, Note: true, Text: fmt.Sprintf(
			"looks up %s in all namespaces: an operator of some namespaces alone may not, and releases fail there", r.Resource)})
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
