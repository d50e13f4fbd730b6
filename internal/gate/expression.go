// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// expression passes when a CEL expression over object, self and now is true.
// object is what the gate's ref names, null where that does not exist; self is
// the resource; now is the time.
type expression struct{ programs *programs }

func newExpression() expression { return expression{programs: newPrograms()} }

func (e expression) Evaluate(ctx context.Context, change Change, g v1alpha1.Gate) (Decision, error) {
	p, err := e.compile(g)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{}
	if p.usesNow {
		d.RecheckAfter = checkInterval(g)
	}
	object, missing, decided, err := e.object(ctx, change, g)
	if decided != nil || err != nil {
		return orZero(decided), err
	}
	var self any
	if change.Object != nil {
		self = change.Object.Object
	}
	out, _, err := p.program.ContextEval(ctx, map[string]any{varObject: object, varSelf: self, varNow: change.now().UTC()})
	switch {
	case err != nil && missing != "":
		d.Verdict, d.Reason, d.Message = Hold, ReasonExpressionFalse, missing+", so object is null; create it, or correct the gate's ref"
	case err != nil:
		d.Verdict, d.Reason, d.Message = Unknown, ReasonExpressionError, "the expression can't be evaluated: "+clip(err.Error())+"; guard fields that may be missing by has(), as in has(object.status) && object.status.ready"
	case out.Value() == true:
		d.Verdict, d.Reason, d.Message = Allow, ReasonExpressionTrue, "the expression is true"
	case out.Value() == false:
		d.Verdict, d.Reason, d.Message = Hold, ReasonExpressionFalse, "the expression is false: "+clip(g.Expression)
		if missing != "" {
			d.Message += "; " + missing
		}
	default:
		d.Verdict, d.Reason, d.Message = Unknown, ReasonExpressionError, fmt.Sprintf("the expression yields a value of type %s, neither true nor false; compare it to something", out.Type().TypeName())
	}
	return d, nil
}

// object is what the expression sees as object, and what to say if it does not exist.
func (e expression) object(ctx context.Context, change Change, g v1alpha1.Gate) (object any, missing string, decided *Decision, err error) {
	if g.Ref == nil {
		return nil, "", nil, nil
	}
	ref, err := e.ref(change, g)
	if err != nil {
		return nil, "", nil, err
	}
	if decided, err = located(ctx, change, &ref); decided != nil || err != nil {
		return nil, "", decided, err
	}
	var obj *unstructured.Unstructured
	obj, err = change.reader().Object(ctx, ref)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, ref.String() + " does not exist", nil, nil
	case err != nil:
		return nil, "", nil, readError(ref, err)
	}
	return obj.Object, "", nil, nil
}

func (e expression) ref(change Change, g v1alpha1.Gate) (Ref, error) {
	ref, err := refOf(g, change.kind(), change.target())
	if err != nil {
		return ref, err
	}
	return ref, secretless(g, ref)
}

func (e expression) References(change Change, g v1alpha1.Gate) []Ref {
	if g.Ref == nil {
		return nil
	}
	ref, err := e.ref(change, g)
	return watchable(change, ref, err)
}

func (e expression) Check(g v1alpha1.Gate) error {
	if g.Ref != nil {
		if _, err := e.ref(Change{Namespace: anyNamespace, GroupVersionKind: v1alpha1.GroupVersion.WithKind("Any")}, g); err != nil {
			return err
		}
	}
	_, err := e.compile(g)
	return err
}

// compile returns the gate's program, from the cache where it was compiled before.
func (e expression) compile(g v1alpha1.Gate) (*program, error) {
	p, fault := e.programs.get(programKey{source: g.Expression, object: g.Ref != nil})
	if fault != nil {
		return nil, &InvalidError{Gate: g.Name, Field: fieldExpression, Line: fault.line, Column: fault.column, Problem: fault.problem, Hint: fault.hint}
	}
	return p, nil
}

// Variables of an expression.
const (
	varObject = "object"
	varSelf   = "self"
	varNow    = "now"
)
