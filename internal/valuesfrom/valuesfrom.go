// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package valuesfrom reads the chart values that a resource takes from Secrets
// and ConfigMaps of its namespace (spec.release.valuesFrom), and keeps in mind
// which of them are secret.
package valuesfrom

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/translate"
)

// Reader reads Secrets and ConfigMaps of the resource's namespace, as the
// identity that the resource acts as. An error that apierrors.IsNotFound knows
// means that the object does not exist.
type Reader interface {
	Secret(ctx context.Context, name string) (map[string][]byte, error)
	ConfigMap(ctx context.Context, name string) (map[string][]byte, error)
}

// Error says what is wrong with a reference, in words that hold nothing of what
// the object holds.
type Error struct {
	// Reason of a condition, one of the constants of v1alpha1.
	Reason string
	msg    string
}

func (e *Error) Error() string { return e.msg }

// Values are what references hold, in their order.
type Values []part

// part is what one reference holds.
type part struct {
	values map[string]any
	secret bool
}

// kindSecret is the kind of reference whose values are secret.
const kindSecret = "Secret"

// defaultKey holds the values where a reference names none.
const defaultKey = "values.yaml"

// Read reads what the references of a resource in the namespace name. Any error
// but an *Error means that an object could not be read.
func Read(ctx context.Context, refs []v1alpha1.ValuesReference, namespace string, reader Reader) (Values, error) {
	out := make(Values, 0, len(refs))
	for i, ref := range refs {
		values, err := read(ctx, ref, fmt.Sprintf("spec.release.valuesFrom[%d]", i), namespace, reader)
		if err != nil {
			return nil, err
		}
		out = append(out, part{values: values, secret: ref.Kind == kindSecret})
	}
	return out, nil
}

func read(ctx context.Context, ref v1alpha1.ValuesReference, field, namespace string, reader Reader) (map[string]any, error) {
	get, key := reader.ConfigMap, cmp.Or(ref.Key, defaultKey)
	if ref.Kind == kindSecret {
		get = reader.Secret
	}
	data, err := get(ctx, ref.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s: %s %s: %w", field, ref.Kind, ref.Name, err)
	}
	text, found := data[key]
	switch {
	case !found && ref.Optional:
		return nil, nil
	case err != nil:
		return nil, &Error{Reason: v1alpha1.ReasonValuesNotFound, msg: fmt.Sprintf(
			"%s: %s %s is missing in namespace %s; create it with key %s, or set optional: true", field, ref.Kind, ref.Name, namespace, key)}
	case !found:
		return nil, &Error{Reason: v1alpha1.ReasonValuesNotFound, msg: fmt.Sprintf(
			"%s: %s %s in namespace %s has no key %s; add it, or set optional: true", field, ref.Kind, ref.Name, namespace, key)}
	}
	values, err := translate.ParseValues(text)
	if err != nil {
		return nil, &Error{Reason: v1alpha1.ReasonInvalidValues, msg: fmt.Sprintf(
			"%s: key %s of %s %s holds no map of chart values in YAML%s", field, key, ref.Kind, ref.Name, place(err))}
	}
	return values, nil
}

var linePattern = regexp.MustCompile(`\bline (\d+)`)

// place says on which line the YAML is wrong, if the error tells. The error itself may quote what is there.
func place(err error) string {
	if m := linePattern.FindStringSubmatch(err.Error()); m != nil {
		return ": look at line " + m[1]
	}
	return ""
}

// Under merges the values under those of the spec, which win, later ones over
// earlier ones. It also returns where in the result values stand that are from
// a Secret: their keys, from the top on down; a list is one value.
func (v Values) Under(spec map[string]any) (merged map[string]any, secret [][]string) {
	merged = map[string]any{}
	for _, p := range v {
		merged = translate.Override(merged, p.values)
	}
	merged = translate.Override(merged, spec)
	for _, p := range v {
		if p.secret {
			secret = append(secret, standing(p.values, merged, nil)...)
		}
	}
	slices.SortFunc(secret, slices.Compare[[]string])
	return merged, slices.CompactFunc(secret, slices.Equal[[]string])
}

// standing returns the paths of the values that are still there in what they were merged into.
func standing(values, merged map[string]any, path []string) [][]string {
	var out [][]string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		at := append(slices.Clone(path), key)
		inner, isMap := values[key].(map[string]any)
		below, both := merged[key].(map[string]any)
		switch {
		case isMap && both:
			out = append(out, standing(inner, below, at)...)
		case !isMap && reflect.DeepEqual(values[key], merged[key]):
			out = append(out, at)
		}
	}
	return out
}
