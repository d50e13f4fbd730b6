// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

func TestAResourceCanNotWeakenTheGatesOfItsKind(t *testing.T) {
	kind := []v1alpha1.Gate{{Name: "approve", Type: v1alpha1.GateManualApproval, Mandatory: yes()}, {Name: "config", Type: v1alpha1.GateConfigMapExists}}
	cases := map[string]struct {
		own     []v1alpha1.Gate
		names   []string
		ignored []string
	}{
		"it has none":               {nil, []string{"approve", "config"}, nil},
		"it adds one":               {[]v1alpha1.Gate{{Name: "own", Type: "X"}}, []string{"approve", "config", "own"}, nil},
		"it makes one optional":     {[]v1alpha1.Gate{{Name: "approve", Type: v1alpha1.GateManualApproval, Mandatory: no()}}, []string{"approve", "config"}, []string{"approve"}},
		"it makes one another":      {[]v1alpha1.Gate{{Name: "config", Type: v1alpha1.GateExpression, Expression: "true"}, {Name: "own", Type: "X"}}, []string{"approve", "config", "own"}, []string{"config"}},
		"it says the same, as such": {[]v1alpha1.Gate{{Name: "approve", Type: v1alpha1.GateManualApproval, Description: "mine", CheckInterval: new(int32(30))}}, []string{"approve", "config"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			gates, ignored := Merge(kind, c.own)
			var names []string
			for _, g := range gates {
				names = append(names, g.Name)
			}
			if diff := cmp.Diff(c.names, names); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.ignored, ignored); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(kind, gates[:len(kind)]); diff != "" {
				t.Errorf("the kind's gates changed: %s", diff)
			}
		})
	}
}

func TestCheckFindsEveryGateThatCanNeverBeJudged(t *testing.T) {
	set := NewSet(Evaluators(Options{}))
	err := set.Check([]v1alpha1.Gate{
		{Name: "fine", Type: v1alpha1.GateExpression, Expression: "self.spec.x"},
		{Name: "unknown", Type: "Magic"},
		{Name: "bad", Type: v1alpha1.GateExpression, Expression: "self.spec.x ==\n nope"},
		{Name: "window", Type: v1alpha1.GateTimeWindow, Schedule: "x", Duration: &metav1.Duration{Duration: time.Hour}},
		{Name: "fine", Type: v1alpha1.GateManualApproval},
		{Name: "Ready", Type: v1alpha1.GateManualApproval},
		{Type: v1alpha1.GateManualApproval},
		{Name: "secret", Type: v1alpha1.GateDependencyReady, Ref: &v1alpha1.GateRef{APIVersion: "v1", Kind: "Secret"}},
		{Name: "map", Type: v1alpha1.GateConfigMapExists, Ref: &v1alpha1.GateRef{Kind: "Pod"}},
		{Name: "both", Type: v1alpha1.GateSecretExists, Ref: &v1alpha1.GateRef{Name: "a/b"}},
	})
	for _, want := range []string{
		"gate bad: expression, line 2, column 2: undeclared reference to 'nope'",
		"gate window: schedule: ", "gate fine: name: is that of another gate", "gate Ready: name: is taken",
		"gate number 7: name: is missing", "gate secret: ref: ", "gate map: ref: ", "gate both: ref: ",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not found: %q in %v", want, err)
		}
	}
	if n := len(strings.Split(err.Error(), "\n")); n != 8 {
		t.Errorf("%d problems: %v", n, err)
	}
	if _, ok := errors.AsType[*InvalidError](err); !ok {
		t.Error("the error is not an InvalidError")
	}
	if err := set.Check([]v1alpha1.Gate{{Name: "unknown", Type: "Magic"}}); err != nil {
		t.Errorf("an unknown type holds, and is no error: %v", err)
	}
}

func TestReferencesAreWhatTheGatesLookAt(t *testing.T) {
	set := NewSet(Evaluators(Options{}))
	gates := []v1alpha1.Gate{
		{Name: "c", Type: v1alpha1.GateConfigMapExists}, {Name: "c2", Type: v1alpha1.GateConfigMapExists, Ref: &v1alpha1.GateRef{Name: "c"}},
		{Name: "s", Type: v1alpha1.GateSecretExists}, {Name: "d", Type: v1alpha1.GateDependencyReady},
		{Name: "a", Type: v1alpha1.GateManualApproval}, {Name: "e", Type: v1alpha1.GateExpression, Expression: "true"},
		{Name: "o", Type: v1alpha1.GateExpression, Ref: &v1alpha1.GateRef{APIVersion: "apps/v1", Kind: "Deployment"}},
		{Name: "w", Type: v1alpha1.GateTimeWindow}, {Name: "far", Type: v1alpha1.GateConfigMapExists, Ref: &v1alpha1.GateRef{Namespace: "other"}},
		{Name: "x", Type: "Magic"},
	}
	want := []string{
		"ConfigMap c in namespace target", "Secret s in namespace target", "App d in namespace ns",
		"ConfigMap approval-web in namespace ns", "ReleaseApproval web in namespace ns", "Deployment o in namespace target",
	}
	var got []string
	for _, ref := range set.References(change(nil), gates) {
		got = append(got, ref.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEveryGateIsLookedAtAgain(t *testing.T) {
	set := NewSet(Evaluators(Options{}))
	interval := int32(9)
	decisions := set.Evaluate(t.Context(), change(&fakeReader{}), []v1alpha1.Gate{
		{Name: "a", Type: v1alpha1.GateConfigMapExists},
		{Name: "b", Type: v1alpha1.GateSecretExists, CheckInterval: &interval},
		{Name: "c", Type: "Magic"},
	})
	for i, want := range []time.Duration{30 * time.Second, 9 * time.Second, 30 * time.Second} {
		if decisions[i].RecheckAfter != want {
			t.Errorf("%s after %s, want %s", decisions[i].Gate.Name, decisions[i].RecheckAfter, want)
		}
	}
	if got := RecheckAfter(decisions); got != 9*time.Second {
		t.Errorf("all of them after %s", got)
	}
	if got := RecheckAfter(nil); got != 0 {
		t.Errorf("nothing after %s", got)
	}
}

func TestWithoutAReaderNothingOpens(t *testing.T) {
	for _, gateType := range []v1alpha1.GateType{v1alpha1.GateConfigMapExists, v1alpha1.GateSecretExists, v1alpha1.GateDependencyReady, v1alpha1.GateManualApproval} {
		d := judge(t, Change{}, v1alpha1.Gate{Type: gateType}, Options{})
		if d.Verdict == Allow {
			t.Errorf("%s opens: %+v", gateType, d)
		}
	}
}

func TestASetMayBeUsedByMany(t *testing.T) {
	set := NewSet(Evaluators(Options{Protection: vouched}))
	reader := &fakeReader{approvals: []v1alpha1.ReleaseApproval{approval("a", nil)}}
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			gates := []v1alpha1.Gate{
				{Name: "e", Type: v1alpha1.GateExpression, Expression: fmt.Sprintf("self.spec.replicas == %d", n%3)},
				{Name: "gate", Type: v1alpha1.GateManualApproval},
			}
			d := set.Evaluate(t.Context(), change(reader), gates)
			if Open(d) != (n%3 == 2) {
				t.Errorf("%d: %+v", n, d)
			}
		})
	}
	group.Wait()
}

// TestReasonsAreComplete finds the constants in the source.
func TestReasonsAreComplete(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if ok && len(spec.Values) == 1 && strings.HasPrefix(spec.Names[0].Name, "Reason") {
				if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
					if value, err := strconv.Unquote(lit.Value); err == nil {
						found = append(found, value)
					}
				}
			}
			return true
		})
	}
	slices.Sort(found)
	if diff := cmp.Diff(found, Reasons()); diff != "" {
		t.Error(diff)
	}
}

// FuzzGates finds that no gate, however it is written, makes an evaluator panic, or
// opens one whose objects can't be read.
func FuzzGates(f *testing.F) {
	f.Add(`{"name":"a","type":"ConfigMapExists","keys":["a",""],"ref":{"apiVersion":"v1","kind":"ConfigMap","name":"../x","namespace":"ns"}}`)
	f.Add(`{"name":"a","type":"ManualApproval","accept":["ConfigMap"],"perChange":true}`)
	f.Add(`{"name":"a","type":"TimeWindow","schedule":"* * * * *","duration":"-1h","timezone":"UTC"}`)
	f.Add(`{"name":"a","type":"Expression","expression":"object.x","ref":{"apiVersion":"a/b","kind":""}}`)
	f.Add(`{"name":"Ready","type":"DependencyReady","mandatory":false,"checkInterval":-5}`)
	set := NewSet(Evaluators(Options{Protection: vouched}))
	down := errors.New("down")
	f.Fuzz(func(t *testing.T, source string) {
		var g v1alpha1.Gate
		if json.Unmarshal([]byte(source), &g) != nil {
			return
		}
		reader := &failing{down}
		_ = set.Check([]v1alpha1.Gate{g})
		_ = set.References(change(reader), []v1alpha1.Gate{g})
		d := set.Evaluate(t.Context(), change(reader), []v1alpha1.Gate{g})[0]
		if d.Verdict == 0 || d.Reason == "" || d.Message == "" || d.RecheckAfter < 0 {
			t.Errorf("decision %+v", d)
		}
		if d.Verdict == Allow && g.Type != v1alpha1.GateTimeWindow && g.Type != v1alpha1.GateExpression {
			t.Errorf("%s opens though nothing can be read: %+v", source, d)
		}
	})
}
