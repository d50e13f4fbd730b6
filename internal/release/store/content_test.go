// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	helmrelease "helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// makeRelease returns a release as Helm would pass it to a driver.
func makeRelease(name, namespace string, version int, status helmrelease.Status) *helmrelease.Release {
	return &helmrelease.Release{
		Name: name, Namespace: namespace, Version: version,
		Info: &helmrelease.Info{Status: status, Description: "test"},
		Chart: &chart.Chart{
			Metadata:  &chart.Metadata{Name: "demo", Version: "1.2.3", AppVersion: "4"},
			Values:    map[string]any{"replicas": float64(1)},
			Templates: []*chart.File{{Name: "templates/a.yaml", Data: []byte("a: {{ .Values.a }}")}},
			Files:     []*chart.File{{Name: "README.md", Data: []byte("read me")}},
		},
		Config:   map[string]any{"replicas": float64(version)},
		Manifest: fmt.Sprintf("kind: ConfigMap\n# %d\n", version),
		Hooks:    []*helmrelease.Hook{{Name: "hook", Kind: "Job", Manifest: "kind: Job"}},
		Labels:   map[string]string{"team": "blue"},
	}
}

func pack(t testing.TB, content []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestStoredReleaseIsSlimAndComesBack(t *testing.T) {
	rel := makeRelease("a", "ns", 3, helmrelease.StatusDeployed)
	payload, err := encode(rel)
	if err != nil {
		t.Fatal(err)
	}
	got, size, err := decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	if got.Manifest != rel.Manifest || got.Version != 3 || got.Config["replicas"] != 3.0 || got.Chart.Values["replicas"] != 1.0 ||
		got.Chart.Metadata.AppVersion != "4" || len(got.Hooks) != 1 || size <= len(rel.Manifest) {
		t.Errorf("got %+v of size %d", got, size)
	}
	if len(got.Chart.Templates)+len(got.Chart.Files) != 0 {
		t.Error("templates and files were stored")
	}
	if len(rel.Chart.Templates) != 1 {
		t.Error("the release that was passed lost its templates")
	}
	if _, err := encode(&helmrelease.Release{Name: "a"}); err == nil {
		t.Error("a release without status was encoded")
	}
}

func TestBrokenContentIsRefused(t *testing.T) {
	const canary = "s3cret"
	for name, test := range map[string]struct {
		payload []byte
		want    error
	}{
		"nothing":                    {nil, errNotRelease},
		"text":                       {[]byte(canary), errNotRelease},
		"a broken gzip header":       {append([]byte{0x1f, 0x8b, 8}, canary...), errNotGzip},
		"gzip that ends early":       {pack(t, []byte(`{"info":{}}`))[:15], errNotGzip},
		"another type":               {[]byte(`{"version":"` + canary + `"}`), errNotRelease},
		"a time that is none":        {[]byte(`{"info":{"first_deployed":"` + canary + `"}}`), errNotRelease},
		"no info":                    {[]byte(`{"name":"a"}`), errNoInfo},
		"null":                       {[]byte(`null`), errNoInfo},
		"a million values":           {pack(t, []byte(`{"config":{"a":[`+strings.Repeat("{},", maxValues)+`{}]}}`)), errTooManyValues},
		"resources of unknown types": {[]byte(`{"info":{"resources":{"a":[{"kind":"` + canary + `"}]}}}`), errNotRelease},
	} {
		t.Run(name, func(t *testing.T) {
			rel, _, err := decode(test.payload)
			if !errors.Is(err, test.want) || rel != nil {
				t.Errorf("got %v and error %v, want %v", rel, err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("error %q quotes content", err)
			}
		})
	}
	if _, err := fromBase64([]byte("s3cret!")); !errors.Is(err, errNotBase64) {
		t.Errorf("got %v, want %v", err, errNotBase64)
	}
}

func TestContentIsUnpackedToTheLimitAndNoFurther(t *testing.T) {
	bomb := bytes.Repeat(pack(t, make([]byte, 1<<16)), 100)
	if content, err := unpack(bomb, 1<<16); !errors.Is(err, errTooLarge) || content != nil {
		t.Errorf("got %d bytes, error %v", len(content), err)
	}
	if content, err := unpack(bomb, 100<<16); err != nil || len(content) != 100<<16 {
		t.Errorf("got %d bytes, error %v", len(content), err)
	}
	if _, _, err := decode(make([]byte, maxContent+1)); !errors.Is(err, errTooLarge) {
		t.Errorf("got %v for content that is large and not compressed", err)
	}
}

func TestNullsInContentAreNoTrap(t *testing.T) {
	rel, _, err := decode([]byte(`{"info":{},"hooks":[null],"chart":{"templates":[null],"files":[null],"lock":{"dependencies":[null]},
		"metadata":{"dependencies":[null],"maintainers":[null]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	c := rel.Chart
	if n := len(rel.Hooks) + len(c.Templates) + len(c.Files) + len(c.Lock.Dependencies) + len(c.Metadata.Dependencies) + len(c.Metadata.Maintainers); n != 0 {
		t.Errorf("%d nulls are left", n)
	}
	if rel, _, err := decode([]byte(`{"info":{}}`)); err != nil || rel.Chart.Metadata == nil {
		t.Errorf("got %+v and error %v, want a chart with metadata", rel, err)
	}
}

func FuzzDecode(f *testing.F) {
	payload, err := encode(makeRelease("a", "ns", 1, helmrelease.StatusDeployed))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	f.Add([]byte(`{"info":{"status":"x"},"hooks":[null,{}],"chart":{"metadata":null}}`))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Fuzz(func(t *testing.T, payload []byte) {
		rel, _, err := decode(payload)
		if err != nil {
			return
		}
		again, err := encode(share(rel, nil))
		if err != nil {
			t.Fatalf("what was decoded cannot be encoded: %v", err)
		}
		if _, _, err := decode(again); err != nil {
			t.Fatalf("what was encoded cannot be decoded: %v", err)
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	key := func(i int) contentKey { return contentKey{types.UID("u"), fmt.Sprint(i)} }
	rel := makeRelease("a", "ns", 1, helmrelease.StatusDeployed)
	c := newContentCache(1000, 3)
	for i := range 5 {
		c.put(&content{key: key(i), release: rel, size: 100})
	}
	if c.order.Len() != 3 || c.bytes != 300 || c.get(key(1)) != nil || c.get(key(2)) == nil {
		t.Errorf("kept %d items of %d bytes, want the newest 3", c.order.Len(), c.bytes)
	}
	c.put(&content{key: key(6), release: rel, size: 850}) // evicts 3 and 4; 2 was used last
	if c.get(key(2)) == nil || c.get(key(3)) != nil || c.bytes > 1000 {
		t.Errorf("kept %d bytes", c.bytes)
	}
	c.put(&content{key: key(7), release: rel, size: 1001})
	if c.get(key(7)) != nil || c.get(key(2)) == nil {
		t.Error("what does not fit took the place of others")
	}
	c.rename(key(2), key(8))
	if c.get(key(2)) != nil || c.get(key(8)) == nil {
		t.Error("the new version of the same content is not found")
	}
	c.drop(key(8))
	c.drop(key(6))
	if c.bytes != 0 || len(c.items) != 0 {
		t.Errorf("%d bytes are left", c.bytes)
	}
	payload, err := encode(rel)
	if err != nil {
		t.Fatal(err)
	}
	big := newContentCache(1<<20, 10)
	big.written(key(1), payload)
	if big.peek(key(1)) != nil || big.get(key(1)) == nil || big.peek(key(1)) == nil {
		t.Error("written content is decoded when it is asked for, and then kept so")
	}
}

func TestCallersCannotSpoilTheCache(t *testing.T) {
	kept := makeRelease("a", "ns", 1, helmrelease.StatusDeployed)
	got := share(kept, map[string]string{"name": "a", "team": "red", LabelParts: "x"})
	got.SetStatus(helmrelease.StatusFailed, "changed")
	got.Labels["team"] = "green"
	got.Hooks[0].LastRun.Phase = helmrelease.HookPhaseFailed
	got.Manifest = ""
	if kept.Info.Status != helmrelease.StatusDeployed || kept.Labels["team"] != "blue" || kept.Hooks[0].LastRun.Phase != "" || kept.Manifest == "" {
		t.Errorf("the cached release became %+v", kept)
	}
	if len(got.Labels) != 1 {
		t.Errorf("got labels %v, want those of the release alone", got.Labels)
	}
}

func TestKeysAndParts(t *testing.T) {
	for key, want := range map[string]bool{
		"sh.helm.release.v1.a.v1": true, "sh.helm.release.v1.a.b.v.v12": true,
		"sh.helm.release.v1.a.v0": false, "sh.helm.release.v1.a.v01": false, "sh.helm.release.v1.a.v+1": false, "sh.helm.release.v1..v1": false,
		"sh.helm.release.v1.a.v-1": false, "sh.helm.release.v1.a": false, "x.v1": false, "": false, "sh.helm.release.v1.a.v99999999999999999999": false,
	} {
		name, version, ok := splitKey(key)
		if ok != want || ok && keyOf(name, version) != key {
			t.Errorf("splitKey(%q) = %q, %d, %v", key, name, version, ok)
		}
	}
	for part, want := range map[string]bool{"k.v1.0123456789.0": true, "k.v1.0123456789.x": false, "k.v1.01234.0": false, "0": false, "": false, "a.-1": false} {
		if _, _, ok := splitPart(types.NamespacedName{Name: part}); ok != want {
			t.Errorf("splitPart(%q) = %v", part, ok)
		}
	}
}

func TestForgedLabelsMakeNoRecord(t *testing.T) {
	good := map[string]string{"owner": "helm", "name": "a", "version": "2", "status": "deployed"}
	for name, test := range map[string]struct {
		key, label, value string
		want              string
	}{
		"as Helm writes it":        {key: "sh.helm.release.v1.a.v2"},
		"another owner":            {"sh.helm.release.v1.a.v2", "owner", "chartgate", "owner"},
		"a version that is none":   {"sh.helm.release.v1.a.v2", "version", "two", "version"},
		"a negative version":       {"sh.helm.release.v1.a.v-2", "version", "-2", "version"},
		"a name that does not fit": {"sh.helm.release.v1.a.v2", "name", "b", "name"},
		"another version":          {"sh.helm.release.v1.a.v2", "version", "3", "version"},
		"a time that is none":      {"sh.helm.release.v1.a.v2", "modifiedAt", "99999999999999999", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := metav1.ObjectMeta{Name: test.key, Namespace: "ns", Labels: map[string]string{test.label: test.value}}
			for k, v := range good {
				if k != test.label {
					m.Labels[k] = v
				}
			}
			_, err := recordOf(objectOf(&m))
			if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "ns/"+test.key)) {
				t.Errorf("got %v, want an error about %q", err, test.want)
			}
		})
	}
	_, err := json.Marshal((&Driver{namespace: "ns"}).outline(Record{Name: "a"}))
	if err != nil {
		t.Error(err)
	}
}
