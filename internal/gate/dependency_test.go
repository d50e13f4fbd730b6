// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// resource is a resource of a Chartgate kind in namespace ns with gates on the given dependencies.
func resource(kind, name, status string, dependencies ...string) string {
	var gates strings.Builder
	for i, d := range dependencies {
		fmt.Fprintf(&gates, "  - {name: g%d, type: DependencyReady, %s}\n", i, d)
	}
	return fmt.Sprintf("apiVersion: apps.chartgate.dev/v1alpha1\nkind: %s\nmetadata: {name: %s, namespace: ns, generation: 2}\nspec:\n  gates:\n%sstatus: %s\n",
		kind, name, gates.String(), status)
}

func TestDependencyReadiness(t *testing.T) {
	thing := func(rest string) string {
		return "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: dep, namespace: ns, generation: 2}\n" + rest
	}
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: dep, namespace: ns, generation: 2}\nspec: {replicas: 1}\nstatus: {observedGeneration: %d, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: 'True'}]}"
	ours := func(status string) string { return resource("App", "dep", status) }
	cases := map[string]struct {
		object  string
		verdict Verdict
		text    string
	}{
		"condition Ready":                               {thing("status: {conditions: [{type: Ready, status: 'True', observedGeneration: 2}]}"), Allow, ""},
		"condition Ready of an older generation":        {thing("status: {conditions: [{type: Ready, status: 'True', observedGeneration: 1}]}"), Hold, "generation 1 and is at generation 2"},
		"condition Ready, status of an older one":       {thing("status: {observedGeneration: 1, conditions: [{type: Ready, status: 'True'}]}"), Hold, "generation 1"},
		"condition Ready that states no generation":     {thing("status: {conditions: [{type: Ready, status: 'True'}]}"), Allow, ""},
		"condition Ready is False":                      {thing("status: {conditions: [{type: Ready, status: 'False', reason: Why, message: because}]}"), Hold, "Why: because"},
		"no condition, phase Running":                   {thing("status: {phase: Running}"), Allow, ""},
		"no condition, phase Deployed, older":           {thing("status: {phase: Deployed, observedGeneration: 1}"), Hold, ""},
		"no condition, phase Failed":                    {thing("status: {phase: Failed}"), Hold, "phase is Failed"},
		"no status yet":                                 {thing(""), Hold, "no status yet"},
		"kstatus: stalled":                              {thing("status: {phase: Running, conditions: [{type: Stalled, status: 'True', message: stuck}]}"), Hold, "stuck"},
		"being deleted":                                 {strings.Replace(thing("status: {phase: Running}"), "generation: 2", "generation: 2, deletionTimestamp: '2026-01-01T00:00:00Z'", 1), Hold, "being deleted"},
		"a Deployment that is":                          {fmt.Sprintf(deployment, 2), Allow, ""},
		"a Deployment of an older generation":           {fmt.Sprintf(deployment, 1), Hold, ""},
		"a ConfigMap exists":                            {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dep, namespace: ns}", Allow, ""},
		"one of ours without a condition is not":        {ours("{phase: Deployed}"), Hold, "no condition Ready yet"},
		"one of ours is, by its condition":              {ours("{conditions: [{type: Ready, status: 'True', observedGeneration: 2}]}"), Allow, ""},
		"one of ours that was, before its spec changed": {ours("{conditions: [{type: Ready, status: 'True', observedGeneration: 1}]}"), Hold, "generation 1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reader := (&fakeReader{}).with(t, c.object)
			gvk := object(t, c.object).GroupVersionKind()
			apiVersion, kind := gvk.ToAPIVersionAndKind()
			g := v1alpha1.Gate{Name: "dep", Type: v1alpha1.GateDependencyReady, Ref: &v1alpha1.GateRef{APIVersion: apiVersion, Kind: kind}}
			reason := ReasonDependencyReady
			if c.verdict != Allow {
				reason = ReasonDependencyNotReady
			}
			expect(t, judge(t, change(reader), g, Options{}), c.verdict, reason, c.text)
		})
	}
}

func TestDependencyReferences(t *testing.T) {
	ready := "{conditions: [{type: Ready, status: 'True'}]}"
	reader := (&fakeReader{}).with(t, resource("App", "own", ready),
		"apiVersion: v1\nkind: Node\nmetadata: {name: node}\nstatus: "+ready)
	g := func(name string, ref *v1alpha1.GateRef) v1alpha1.Gate {
		return v1alpha1.Gate{Name: name, Type: v1alpha1.GateDependencyReady, Ref: ref}
	}
	node := g("node", &v1alpha1.GateRef{APIVersion: "v1", Kind: "Node"})
	expect(t, judge(t, change(reader), g("own", nil), Options{}), Allow, ReasonDependencyReady)
	expect(t, judge(t, change(reader), g("none", nil), Options{}), Hold, ReasonDependencyMissing, "App none in namespace ns does not exist")
	expect(t, judge(t, change(reader), node, Options{}), Hold, ReasonReferenceNotAllowed, "in no namespace")
	free := change(reader)
	free.CrossNamespaceRefs = true
	expect(t, judge(t, free, node, Options{}), Allow, ReasonDependencyReady)
	expect(t, judge(t, change(reader), g("x", &v1alpha1.GateRef{Kind: "Nothing"}), Options{}), Unknown, ReasonKindNotServed, "no kind Nothing in apps.chartgate.dev/v1alpha1")
	expect(t, judge(t, change(reader), g("x", &v1alpha1.GateRef{APIVersion: "v1", Kind: "Secret"}), Options{}), Hold, ReasonInvalidGate, "can't refer to a Secret")
	denied := &fakeReader{fails: map[string]error{"App": &ForbiddenError{User: "jane doe", Verb: "get", Group: "apps.chartgate.dev", Resource: "apps"}}}
	expect(t, judge(t, change(denied), g("x", nil), Options{}), Unknown, ReasonForbidden, "jane doe may not get apps.apps.chartgate.dev in the whole cluster", "--user='jane doe'")
}

func TestCyclesAreFoundAndNamed(t *testing.T) {
	app := func(name string, dependencies ...string) string { return resource("App", name, "{}", dependencies...) }
	on := func(name string) string { return "ref: {name: " + name + "}" }
	cases := map[string]struct {
		objects []string
		kind    []v1alpha1.Gate // of kind Database, from watches.yaml
		want    string          // empty: no cycle
	}{
		"none":                              {[]string{app("b", on("c")), app("c")}, nil, ""},
		"itself by another":                 {[]string{app("b", on("web"))}, nil, "web -> b -> web"},
		"by two others":                     {[]string{app("b", on("other"), on("c")), app("other"), app("c", on("web"))}, nil, "web -> b -> c -> web"},
		"one that it only leads into":       {[]string{app("b", on("c")), app("c", on("b"))}, nil, "b -> c -> b"},
		"an optional gate holds nothing":    {[]string{app("b", on("web")+", mandatory: false")}, nil, ""},
		"across kinds":                      {[]string{app("b", "ref: {kind: Database, name: db}"), resource("Database", "db", "{}", "ref: {kind: App, name: web}")}, nil, "App web -> App b -> Database db -> App web"},
		"by a gate of watches.yaml":         {[]string{app("b", "ref: {kind: Database, name: db}"), resource("Database", "db", "{}")}, []v1alpha1.Gate{{Name: "w", Type: v1alpha1.GateDependencyReady, Ref: &v1alpha1.GateRef{Kind: "App", Name: "web"}}}, "App web -> App b -> Database db -> App web"},
		"what leads away isn't followed":    {[]string{app("b", "ref: {name: web, namespace: elsewhere}")}, nil, ""},
		"kinds of others aren't looked for": {[]string{app("b", "ref: {apiVersion: x.dev/v1, kind: Thing, name: t}"), "apiVersion: x.dev/v1\nkind: Thing\nmetadata: {name: t, namespace: ns}\nspec: {gates: [{name: web, type: DependencyReady, ref: {apiVersion: apps.chartgate.dev/v1alpha1, kind: App}}]}"}, nil, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reader := (&fakeReader{}).with(t, c.objects...)
			o := Options{KindGates: func(gk schema.GroupKind) ([]v1alpha1.Gate, bool) {
				return c.kind, gk == dbKind.GroupKind()
			}}
			d := judge(t, change(reader), v1alpha1.Gate{Name: "b", Type: v1alpha1.GateDependencyReady}, o)
			if c.want == "" {
				expect(t, d, Hold, ReasonDependencyNotReady)
				return
			}
			expect(t, d, Hold, ReasonDependencyCycle, ": "+c.want+";")
			optional := judge(t, change(reader), v1alpha1.Gate{Name: "b", Type: v1alpha1.GateDependencyReady, Mandatory: no()}, o)
			expect(t, optional, Hold, ReasonDependencyNotReady)
		})
	}
	self := (&fakeReader{}).with(t, app("web"))
	expect(t, judge(t, change(self), v1alpha1.Gate{Name: "web", Type: v1alpha1.GateDependencyReady}, Options{}), Hold, ReasonDependencyCycle, "web -> web")
}
