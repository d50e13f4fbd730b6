// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"testing"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

type evaluatorFunc func(v1alpha1.Gate) (Decision, error)

func (f evaluatorFunc) Evaluate(_ context.Context, _ Change, g v1alpha1.Gate) (Decision, error) {
	return f(g)
}

func TestSetAsksEveryGateAndNeverOpensByAccident(t *testing.T) {
	set := NewSet(map[v1alpha1.GateType]Evaluator{
		"Open":   evaluatorFunc(func(v1alpha1.Gate) (Decision, error) { return Decision{Verdict: Allow}, nil }),
		"Closed": evaluatorFunc(func(v1alpha1.Gate) (Decision, error) { return Decision{Verdict: Hold}, nil }),
		"Broken": evaluatorFunc(func(v1alpha1.Gate) (Decision, error) { return Decision{Verdict: Allow}, errors.New("forbidden") }),
		"Silent": evaluatorFunc(func(v1alpha1.Gate) (Decision, error) { return Decision{}, nil }),
	})
	optional := false
	cases := map[string]struct {
		gates []v1alpha1.Gate
		open  bool
	}{
		"no gates":                       {nil, true},
		"one that is open":               {[]v1alpha1.Gate{{Name: "a", Type: "Open"}}, true},
		"one that is closed":             {[]v1alpha1.Gate{{Name: "a", Type: "Open"}, {Name: "b", Type: "Closed"}}, false},
		"one that could not be judged":   {[]v1alpha1.Gate{{Name: "a", Type: "Broken"}}, false},
		"one that says nothing":          {[]v1alpha1.Gate{{Name: "a", Type: "Silent"}}, false},
		"one of a type nobody knows":     {[]v1alpha1.Gate{{Name: "a", Type: "Magic"}}, false},
		"a closed one that is optional":  {[]v1alpha1.Gate{{Name: "a", Type: "Closed", Mandatory: &optional}}, true},
		"an unknown one that's optional": {[]v1alpha1.Gate{{Name: "a", Type: "Magic", Mandatory: &optional}}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			decisions := set.Evaluate(t.Context(), Change{}, c.gates)
			if len(decisions) != len(c.gates) {
				t.Fatalf("%d decisions of %d gates", len(decisions), len(c.gates))
			}
			for i, d := range decisions {
				if d.Gate.Name != c.gates[i].Name || d.Verdict == 0 {
					t.Errorf("decision %+v", d)
				}
			}
			if Open(decisions) != c.open {
				t.Errorf("open is %v: %+v", !c.open, decisions)
			}
		})
	}
}
