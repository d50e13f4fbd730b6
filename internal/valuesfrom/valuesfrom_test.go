// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package valuesfrom

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// objects are what Secrets and ConfigMaps hold, by kind/name and key.
type objects map[string]map[string]string

func (o objects) Secret(_ context.Context, name string) (map[string][]byte, error) {
	return o.get("Secret", name)
}

func (o objects) ConfigMap(_ context.Context, name string) (map[string][]byte, error) {
	return o.get("ConfigMap", name)
}

func (o objects) get(kind, name string) (map[string][]byte, error) {
	data, ok := o[kind+"/"+name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: strings.ToLower(kind) + "s"}, name)
	}
	out := map[string][]byte{}
	for k, v := range data {
		out[k] = []byte(v)
	}
	return out, nil
}

func secretRef(name, key string) v1alpha1.ValuesReference {
	return v1alpha1.ValuesReference{Kind: "Secret", Name: name, Key: key}
}

func configRef(name, key string) v1alpha1.ValuesReference {
	return v1alpha1.ValuesReference{Kind: "ConfigMap", Name: name, Key: key}
}

func TestValuesAreMergedUnderTheSpec(t *testing.T) {
	all := objects{
		"ConfigMap/base": {"values.yaml": "size: 1\nbig: 1000000\ndb: {host: base, port: 5432}\nlist: [a, b]\ngone: x\n"},
		"Secret/db":      {"db.yaml": "db: {host: db, password: pa55word, pin: 12345}\nlist: [c]\ntoken: t0ken\nopen: seen\n"},
		"ConfigMap/last": {"values.yaml": "open: plain\n"},
		"ConfigMap/none": {"values.yaml": ""},
	}
	refs := []v1alpha1.ValuesReference{configRef("base", ""), secretRef("db", "db.yaml"), configRef("last", ""), configRef("none", "")}
	values, err := Read(t.Context(), refs, "team", all)
	if err != nil {
		t.Fatal(err)
	}
	spec := map[string]any{"size": int64(2), "token": "of the spec", "gone": nil}
	merged, secret := values.Under(spec)
	want := map[string]any{
		"size": int64(2), "big": int64(1000000), "list": []any{"c"}, "token": "of the spec", "gone": nil, "open": "plain",
		"db": map[string]any{"host": "db", "port": int64(5432), "password": "pa55word", "pin": int64(12345)},
	}
	if !reflect.DeepEqual(merged, want) {
		t.Errorf("values\n%v, want\n%v", merged, want)
	}
	paths := [][]string{{"db", "host"}, {"db", "password"}, {"db", "pin"}, {"list"}}
	if !reflect.DeepEqual(secret, paths) {
		t.Errorf("secret are %v, want %v", secret, paths)
	}
	if len(spec) != 3 {
		t.Errorf("the spec's values were changed: %v", spec)
	}
}

func TestWhatIsWrongWithAReferenceIsToldWithoutWhatItHolds(t *testing.T) {
	all := objects{
		"Secret/db":        {"values.yaml": "a: b\n"},
		"Secret/list":      {"values.yaml": "- canary\n"},
		"Secret/text":      {"values.yaml": "canary\n"},
		"ConfigMap/broken": {"values.yaml": "a: 1\ncanary: [\n"},
		"Secret/broken":    {"values.yaml": "a: !!int canary\n"},
	}
	cases := []struct {
		ref    v1alpha1.ValuesReference
		reason string
		words  string
	}{
		{secretRef("no", ""), v1alpha1.ReasonValuesNotFound, "valuesFrom[1]: Secret no is missing in namespace team; create it with key values.yaml"},
		{configRef("no", "k"), v1alpha1.ReasonValuesNotFound, "ConfigMap no is missing in namespace team; create it with key k"},
		{secretRef("db", "other"), v1alpha1.ReasonValuesNotFound, "Secret db in namespace team has no key other"},
		{secretRef("list", ""), v1alpha1.ReasonInvalidValues, "key values.yaml of Secret list holds no map"},
		{secretRef("text", ""), v1alpha1.ReasonInvalidValues, "Secret text holds no map"},
		{configRef("broken", ""), v1alpha1.ReasonInvalidValues, "look at line "},
		{secretRef("broken", ""), v1alpha1.ReasonInvalidValues, "Secret broken holds no map"},
	}
	for _, c := range cases {
		_, err := Read(t.Context(), []v1alpha1.ValuesReference{secretRef("db", ""), c.ref}, "team", all)
		wrong, ok := errors.AsType[*Error](err)
		if !ok || wrong.Reason != c.reason || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s %s: %v", c.ref.Kind, c.ref.Name, err)
		}
	}
}

func TestOptionalReferencesMayBeMissing(t *testing.T) {
	refs := []v1alpha1.ValuesReference{secretRef("no", ""), secretRef("db", "no")}
	for i := range refs {
		refs[i].Optional = true
	}
	values, err := Read(t.Context(), refs, "team", objects{"Secret/db": {"values.yaml": "a: b\n"}})
	if err != nil {
		t.Fatal(err)
	}
	if merged, secret := values.Under(map[string]any{"x": "y"}); !reflect.DeepEqual(merged, map[string]any{"x": "y"}) || secret != nil {
		t.Errorf("values %v, secret %v", merged, secret)
	}
}

// broken can't be read.
type broken struct{ error }

func (b broken) Secret(context.Context, string) (map[string][]byte, error)    { return nil, b.error }
func (b broken) ConfigMap(context.Context, string) (map[string][]byte, error) { return nil, b.error }

func TestWhatCannotBeReadIsNotMissing(t *testing.T) {
	cause := errors.New("the API is down")
	ref := secretRef("db", "")
	ref.Optional = true
	_, err := Read(t.Context(), []v1alpha1.ValuesReference{ref}, "team", broken{cause})
	if _, wrong := errors.AsType[*Error](err); wrong || !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
}
