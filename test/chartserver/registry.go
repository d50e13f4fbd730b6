// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartserver

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	"helm.sh/helm/v3/pkg/registry"
)

// Registry is an OCI registry.
type Registry struct {
	*httptest.Server
	Requests Requests
	// Password that is asked for, with any user; empty for none. Down makes it answer 503. Both are changed in Set.
	Password string
	Down     bool

	mu sync.Mutex
}

// NewRegistry starts an empty registry. It ends with the test.
func NewRegistry(t testing.TB) *Registry {
	t.Helper()
	o := &Registry{}
	blobs := ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0)))
	o.Server = Quiet(httptest.NewUnstartedServer(o.Requests.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		o.mu.Lock()
		password, down := o.Password, o.Down
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

// Set changes the registry while it runs.
func (o *Registry) Set(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

// Host is the registry's host and port.
func (o *Registry) Host() string { return strings.TrimPrefix(o.URL, "https://") }

// Push puts a chart made by PackChart into charts/ of the registry, and returns its archive.
func (o *Registry) Push(t testing.TB, name, version string, options ...registry.PushOption) []byte {
	t.Helper()
	data := PackChart(t, name, version)
	o.PushArchive(t, name, version, data, options...)
	return data
}

// PushArchive puts an archive into charts/ of the registry, which must not ask for a password yet.
func (o *Registry) PushArchive(t testing.TB, name, version string, archive []byte, options ...registry.PushOption) {
	t.Helper()
	client, err := registry.NewClient(registry.ClientOptHTTPClient(o.Client()), registry.ClientOptCredentialsFile(filepath.Join(t.TempDir(), "none")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Push(archive, o.Host()+"/charts/"+name+":"+version, options...); err != nil {
		t.Fatal(err)
	}
	o.Requests.Take()
}
