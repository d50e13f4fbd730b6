// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	"helm.sh/helm/v3/pkg/registry"
	"helm.sh/helm/v3/pkg/repo"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
)

// packed returns an archive of the files, each below the folder.
func packed(t testing.TB, folder string, files map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	zipped := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]
		if err := tw.WriteHeader(&tar.Header{Name: folder + "/" + name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(tw, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(tw.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func packChart(t testing.TB, name, version string) []byte {
	t.Helper()
	return packed(t, name, map[string]string{
		"Chart.yaml":               fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", name, version),
		"values.yaml":              "max: 1000000\n",
		"templates/configmap.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
	})
}

// requests counts what a server was asked for.
type requests struct {
	mu   sync.Mutex
	list []seen
}

type seen struct {
	method, path, authorization string
	conditional                 bool
	status                      int
}

func (r *requests) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, req)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = append(r.list, seen{
			method: req.Method, path: req.URL.Path, authorization: req.Header.Get("Authorization"),
			conditional: req.Header.Get("If-None-Match") != "" || req.Header.Get("If-Modified-Since") != "",
			status:      answer.status,
		})
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// take returns what was asked for since it was last called.
func (r *requests) take() []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

func (r *requests) expect(t testing.TB, what string, paths ...string) []seen {
	t.Helper()
	list := r.take()
	var got []string
	for _, s := range list {
		got = append(got, s.path)
	}
	if strings.Join(got, " ") != strings.Join(paths, " ") {
		t.Errorf("%s: the server was asked for %v, want %v", what, got, paths)
	}
	return list
}

// chartRepo is a chart repository: a folder that 'helm repo index' made, and a server for it.
type chartRepo struct {
	*httptest.Server
	requests requests
	dir      string

	mu      sync.Mutex
	handler http.Handler // in place of the files, if set
}

func newChartRepo(t testing.TB) *chartRepo {
	t.Helper()
	c := &chartRepo{dir: t.TempDir()}
	files := http.FileServer(http.Dir(c.dir))
	c.Server = quiet(httptest.NewUnstartedServer(c.requests.wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c.mu.Lock()
		h := c.handler
		c.mu.Unlock()
		if h == nil {
			h = files
		}
		h.ServeHTTP(w, req)
	}))))
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

func quiet(s *httptest.Server) *httptest.Server {
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	return s
}

func (c *chartRepo) answer(h http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handler = nil
	if h != nil {
		c.handler = h
	}
}

// add puts a chart into the repository and indexes it anew.
func (c *chartRepo) add(t testing.TB, name string, versions ...string) {
	t.Helper()
	for _, v := range versions {
		c.file(t, name+"-"+v+".tgz", packChart(t, name, v))
	}
	c.index(t)
}

func (c *chartRepo) file(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (c *chartRepo) index(t testing.TB) {
	t.Helper()
	index, err := repo.IndexDirectory(c.dir, "")
	if err != nil {
		t.Fatal(err)
	}
	index.SortEntries()
	file := filepath.Join(c.dir, "index.yaml")
	before, _ := os.Stat(file)
	if err := index.WriteFile(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if before != nil { // Last-Modified is in seconds
		later := before.ModTime().Add(2 * time.Second)
		if err := os.Chtimes(file, later, later); err != nil {
			t.Fatal(err)
		}
	}
}

// ociRegistry is a registry with TLS.
type ociRegistry struct {
	*httptest.Server
	requests requests
	mu       sync.Mutex
	password string
	down     bool
}

func newOCIRegistry(t testing.TB) *ociRegistry {
	t.Helper()
	o := &ociRegistry{}
	blobs := ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0)))
	o.Server = quiet(httptest.NewUnstartedServer(o.requests.wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		o.mu.Lock()
		password, down := o.password, o.down
		o.mu.Unlock()
		if _, got, _ := req.BasicAuth(); password != "" && got != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		if down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		blobs.ServeHTTP(w, req)
	}))))
	o.StartTLS()
	t.Cleanup(o.Close)
	return o
}

func (o *ociRegistry) set(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

func (o *ociRegistry) host() string { return strings.TrimPrefix(o.URL, "https://") }

func (o *ociRegistry) push(t testing.TB, name, version string, options ...registry.PushOption) []byte {
	t.Helper()
	client, err := registry.NewClient(registry.ClientOptHTTPClient(o.Client()), registry.ClientOptCredentialsFile(filepath.Join(t.TempDir(), "none")))
	if err != nil {
		t.Fatal(err)
	}
	data := packChart(t, name, version)
	if _, err := client.Push(data, o.host()+"/charts/"+name+":"+version, options...); err != nil {
		t.Fatal(err)
	}
	o.requests.take()
	return data
}

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

// caSecret holds the certificate of a test server, and what else is given.
func caSecret(s *httptest.Server, more map[string]string) map[string][]byte {
	data := map[string][]byte{"ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
	for k, v := range more {
		data[k] = []byte(v)
	}
	return data
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
