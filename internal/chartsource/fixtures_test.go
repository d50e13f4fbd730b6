// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
)

// secretsOf is what Secrets hold, by namespace and name.
type secretsOf map[string]map[string][]byte

// secretsIn is a fake of Secrets.
type secretsIn struct {
	all       secretsOf
	namespace string
}

func (s secretsIn) Secret(_ context.Context, name string) (map[string][]byte, error) {
	data, ok := s.all[s.namespace+"/"+name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return data, nil
}

// Resolve resolves with the Secrets of the resource's namespace.
func (b *bench) Resolve(ctx context.Context, u *unstructured.Unstructured) (*Chart, error) {
	return b.Repository.Resolve(ctx, u, secretsIn{b.secrets, u.GetNamespace()})
}

type bench struct {
	*Repository
	clock   *testingclock.FakeClock
	secrets secretsOf
}

func newBench(t testing.TB, edit func(*Options)) *bench {
	t.Helper()
	b := &bench{clock: testingclock.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), secrets: secretsOf{}}
	o := Options{
		Digest: filesDigest, CacheDir: t.TempDir(), Clock: b.clock, Wait: time.Minute,
		Policy: Policy{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Limits: Limits{Timeout: 20 * time.Second},
	}
	if edit != nil {
		edit(&o)
	}
	r, err := NewRepository(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	b.Repository = r
	return b
}

// helmApp is a resource with this spec.chart, given as field and value in turn.
func helmApp(repository string, fields ...any) *unstructured.Unstructured {
	chart := map[string]any{"repository": repository, "secretRef": map[string]any{"name": "repo"}}
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] == nil {
			delete(chart, fields[i].(string))
			continue
		}
		chart[fields[i].(string)] = fields[i+1]
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"chart": chart}}}
	u.SetNamespace("team")
	u.SetName("app")
	return u
}

func (b *bench) must(t testing.TB, u *unstructured.Unstructured) *Chart {
	t.Helper()
	c, err := b.Resolve(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (b *bench) refused(t testing.TB, u *unstructured.Unstructured, reason string, words ...string) Error {
	t.Helper()
	c, err := b.Resolve(t.Context(), u)
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("chart %v, error %v; want %s", c, err, reason)
	}
	if e.Reason != reason {
		t.Errorf("reason is %s, want %s: %v", e.Reason, reason, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in: %v", w, err)
		}
	}
	if strings.Contains(err.Error(), "\n") || len(err.Error()) > 1200 {
		t.Errorf("no message for people: %q", err)
	}
	return *e
}

func mustURL(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
