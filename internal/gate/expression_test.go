// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

func TestExpression(t *testing.T) {
	reader := (&fakeReader{}).with(t, "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: target}\nspec: {ports: [{port: 80}]}")
	service := &v1alpha1.GateRef{APIVersion: "v1", Kind: "Service", Name: "s"}
	none := &v1alpha1.GateRef{APIVersion: "v1", Kind: "Service", Name: "none"}
	cases := map[string]struct {
		expression string
		ref        *v1alpha1.GateRef
		verdict    Verdict
		reason     string
		texts      []string
	}{
		"true":                            {"self.spec.replicas == 2", nil, Allow, ReasonExpressionTrue, nil},
		"false":                           {"self.spec.replicas > 2", nil, Hold, ReasonExpressionFalse, []string{"self.spec.replicas > 2"}},
		"over an object":                  {"object.spec.ports.all(p, p.port < 1024)", service, Allow, ReasonExpressionTrue, nil},
		"over the time":                   {"now.getHours() == 12 && now > timestamp('2026-01-01T00:00:00Z')", nil, Allow, ReasonExpressionTrue, nil},
		"with Kubernetes' libraries":      {"quantity('1Gi').isGreaterThan(quantity('1Mi')) && self.spec.hosts.sum() == 'ab' || ip.isCanonical('127.0.0.1')", nil, Allow, ReasonExpressionTrue, nil},
		"an object that is not there":     {"object.spec.x", none, Hold, ReasonExpressionFalse, []string{"Service none in namespace target does not exist"}},
		"that asks for the object":        {"object != null", none, Hold, ReasonExpressionFalse, []string{"does not exist"}},
		"that asks for its absence":       {"object == null", none, Allow, ReasonExpressionTrue, nil},
		"a field that is missing":         {"object.status.ready", service, Unknown, ReasonExpressionError, []string{"no such key: status", "has(object.status)"}},
		"neither true nor false":          {"object.spec.ports", service, Unknown, ReasonExpressionError, []string{"type list"}},
		"statically neither":              {"1 + 1", nil, Hold, ReasonExpressionError, []string{"line 1, column 1: yields a value of type int"}},
		"a variable that is none":         {"1 == 1 &&\n  objct.spec", nil, Hold, ReasonExpressionError, []string{"gate gate: expression, line 2, column 3: undeclared reference to 'objct'", "in scope are"}},
		"object without a ref":            {"object.spec.x", nil, Hold, ReasonExpressionError, []string{"has no ref"}},
		"a local variable of that name":   {"[1, 2].all(object, object > 0)", nil, Allow, ReasonExpressionTrue, nil},
		"no CEL":                          {"self.spec.", nil, Hold, ReasonExpressionError, []string{"line 1, column 11: Syntax error"}},
		"nothing":                         {" ", nil, Hold, ReasonExpressionError, []string{"is missing"}},
		"too long":                        {strings.Repeat(" ", maxExpression) + "true", nil, Hold, ReasonExpressionError, []string{"longer than 4096"}},
		"a Secret":                        {"object.data.password == ''", &v1alpha1.GateRef{APIVersion: "v1", Kind: "Secret", Name: "s"}, Hold, ReasonInvalidGate, []string{"can't refer to a Secret"}},
		"more than the cost limit allows": {"[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, a+b+c+d+e+f >= 0))))))", nil, Unknown, ReasonExpressionError, []string{"cost limit exceeded"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := v1alpha1.Gate{Type: v1alpha1.GateExpression, Expression: c.expression, Ref: c.ref}
			expect(t, judge(t, change(reader), g, Options{}), c.verdict, c.reason, c.texts...)
		})
	}
	down := &fakeReader{fails: map[string]error{"Service": errors.New("refused")}}
	g := v1alpha1.Gate{Type: v1alpha1.GateExpression, Expression: "object == null", Ref: service}
	expect(t, judge(t, change(down), g, Options{}), Unknown, ReasonEvaluationFailed, "refused")
}

func TestOnlyExpressionsOverTheTimeAreLookedAtAgain(t *testing.T) {
	interval := int32(7)
	ask := func(expression string) time.Duration {
		return judge(t, change(&fakeReader{}), v1alpha1.Gate{Type: v1alpha1.GateExpression, Expression: expression, CheckInterval: &interval}, Options{}).RecheckAfter
	}
	if got := ask("now > timestamp(0)"); got != 7*time.Second {
		t.Errorf("over the time: after %s", got)
	}
	if got := ask("true"); got != 0 {
		t.Errorf("over nothing: after %s", got)
	}
	if got := ask("false"); got != 7*time.Second {
		t.Errorf("while it holds: after %s", got)
	}
}

func TestExpressionsAreCompiledOnceAndTheirNumberIsBounded(t *testing.T) {
	p := newPrograms()
	first, _ := p.get(programKey{source: "true"})
	again, _ := p.get(programKey{source: "true"})
	if first == nil || first != again {
		t.Error("compiled twice")
	}
	for i := range maxPrograms + 10 {
		p.kept.Add(programKey{source: fmt.Sprint(i)}, compiled{})
	}
	if p.kept.Len() > maxPrograms {
		t.Errorf("%d are kept", p.kept.Len())
	}
}

func FuzzExpression(f *testing.F) {
	for _, seed := range []string{"true", "self.spec.replicas == 2", "object.a.b[0] == now", "'a'.matches('(a+)+$')", "[1].map(x, x/0)", "quantity(self.x)", "\x00", "object.all(k, v, k == v)"} {
		f.Add(seed, true)
	}
	evaluator := newExpression()
	reader := (&fakeReader{}).with(f, "apiVersion: v1\nkind: Service\nmetadata: {name: gate, namespace: target}\nspec: {a: [1, 1.5, null, {b: c}]}")
	f.Fuzz(func(t *testing.T, source string, ref bool) {
		g := v1alpha1.Gate{Name: "gate", Type: v1alpha1.GateExpression, Expression: source}
		if ref {
			g.Ref = &v1alpha1.GateRef{APIVersion: "v1", Kind: "Service"}
		}
		invalid := evaluator.Check(g)
		d, err := evaluator.Evaluate(t.Context(), change(reader), g)
		if (invalid != nil) != (err != nil) {
			t.Errorf("check says %v, evaluation %v", invalid, err)
		}
		if err == nil && (d.Verdict == 0 || d.Reason == "" || d.Message == "") {
			t.Errorf("decision %+v", d)
		}
	})
}
