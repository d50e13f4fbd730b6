// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// digest is the full digest of the change in these tests.
const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

var (
	appKind = schema.GroupVersionKind{Group: "apps.chartgate.dev", Version: "v1alpha1", Kind: "App"}
	dbKind  = schema.GroupVersionKind{Group: "apps.chartgate.dev", Version: "v1alpha1", Kind: "Database"}
	noon    = time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC) // a Monday
)

// fakeReader reads objects of a test.
type fakeReader struct {
	objects   map[Ref]*unstructured.Unstructured
	keys      map[Ref][]string
	approvals []v1alpha1.ReleaseApproval
	// fails answers reads of kinds.
	fails map[string]error
	// plural of kind App.
	plural string
}

var clusterScoped = map[string]bool{"Namespace": true, "Node": true}

func (f *fakeReader) Kind(_ context.Context, gvk schema.GroupVersionKind) (Kind, error) {
	if err := f.fails["kind "+gvk.Kind]; err != nil {
		return Kind{}, err
	}
	if gvk.Kind == "Nothing" {
		return Kind{}, &NoKindError{GroupVersionKind: gvk}
	}
	if gvk.Kind == "App" && f.plural != "" {
		return Kind{Resource: f.plural, Namespaced: true}, nil
	}
	return Kind{Resource: strings.ToLower(gvk.Kind) + "s", Namespaced: !clusterScoped[gvk.Kind]}, nil
}

func (f *fakeReader) Object(_ context.Context, ref Ref) (*unstructured.Unstructured, error) {
	if ref.GroupVersionKind == secretKind {
		panic("a gate reads a Secret")
	}
	if err := f.fails[ref.GroupVersionKind.Kind]; err != nil {
		return nil, err
	}
	ref.Approves = ""
	if obj, ok := f.objects[ref]; ok {
		return obj, nil
	}
	return nil, ErrNotFound
}

func (f *fakeReader) Keys(_ context.Context, ref Ref) ([]string, error) {
	if err := f.fails[ref.GroupVersionKind.Kind]; err != nil {
		return nil, err
	}
	if keys, ok := f.keys[ref]; ok {
		return keys, nil
	}
	return nil, ErrNotFound
}

func (f *fakeReader) Approvals(context.Context, Ref) ([]v1alpha1.ReleaseApproval, error) {
	return f.approvals, f.fails["ReleaseApproval"]
}

// with adds objects in YAML, one a document.
func (f *fakeReader) with(t testing.TB, documents ...string) *fakeReader {
	t.Helper()
	if f.objects == nil {
		f.objects, f.keys = map[Ref]*unstructured.Unstructured{}, map[Ref][]string{}
	}
	for _, d := range documents {
		obj := object(t, d)
		f.objects[Ref{GroupVersionKind: obj.GroupVersionKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}] = obj
	}
	return f
}

func object(t testing.TB, document string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(document))
	if err == nil {
		err = obj.UnmarshalJSON(content)
	}
	if err != nil {
		t.Fatalf("%v in %s", err, document)
	}
	return obj
}

// change is a change of App ns/web, to be released in namespace target.
func change(reader Reader) Change {
	return Change{
		GroupVersionKind: appKind, Namespace: "ns", Name: "web", TargetNamespace: "target", Digest: digest, Reader: reader,
		Clock: clocktesting.NewFakePassiveClock(noon),
		Object: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps.chartgate.dev/v1alpha1", "kind": "App",
			"metadata": map[string]any{"name": "web", "namespace": "ns", "generation": int64(3)},
			"spec":     map[string]any{"replicas": int64(2), "hosts": []any{"a", "b"}},
		}},
	}
}

// judge asks one gate of the API's types.
func judge(t testing.TB, c Change, g v1alpha1.Gate, o Options) Decision {
	t.Helper()
	if g.Name == "" {
		g.Name = "gate"
	}
	d := NewSet(Evaluators(o)).Evaluate(t.Context(), c, []v1alpha1.Gate{g})[0]
	if d.Gate.Name != g.Name || d.Reason == "" || d.Message == "" {
		t.Errorf("incomplete decision %+v", d)
	}
	return d
}

// expect checks a decision. Each of the texts must be in its message.
func expect(t testing.TB, d Decision, verdict Verdict, reason string, texts ...string) {
	t.Helper()
	if d.Verdict != verdict || d.Reason != reason {
		t.Errorf("verdict %s, reason %s (want %s, %s): %s", d.Verdict.Status(), d.Reason, verdict.Status(), reason, d.Message)
	}
	for _, text := range texts {
		if !strings.Contains(d.Message, text) {
			t.Errorf("the message lacks %q: %s", text, d.Message)
		}
	}
}

func yes() *bool { return new(true) }
func no() *bool  { return new(false) }

// failing is a reader whose every read fails.
type failing struct{ err error }

func (f *failing) Kind(context.Context, schema.GroupVersionKind) (Kind, error) { return Kind{}, f.err }

func (f *failing) Object(context.Context, Ref) (*unstructured.Unstructured, error) { return nil, f.err }

func (f *failing) Keys(context.Context, Ref) ([]string, error) { return nil, f.err }

func (f *failing) Approvals(context.Context, Ref) ([]v1alpha1.ReleaseApproval, error) {
	return nil, f.err
}
