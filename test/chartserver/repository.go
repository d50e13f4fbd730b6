// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartserver

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/repo"
)

// Repository is a chart repository: a folder that 'helm repo index' made, and a server for it.
type Repository struct {
	*httptest.Server
	Requests Requests
	// Dir holds what is served.
	Dir string

	mu      sync.Mutex
	handler http.Handler // in place of the files, if set
}

// NewRepository starts an empty repository. It ends with the test.
func NewRepository(t testing.TB) *Repository {
	t.Helper()
	c := &Repository{Dir: t.TempDir()}
	files := http.FileServer(http.Dir(c.Dir))
	c.Server = Quiet(httptest.NewUnstartedServer(c.Requests.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
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

// Answer has the handler answer from now on; nil: the files again.
func (c *Repository) Answer(h http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handler = nil
	if h != nil {
		c.handler = h
	}
}

// Add puts charts made by PackChart into the repository and indexes it anew.
func (c *Repository) Add(t testing.TB, name string, versions ...string) {
	t.Helper()
	for _, v := range versions {
		c.File(t, name+"-"+v+".tgz", PackChart(t, name, v))
	}
	c.Index(t)
}

// File puts a file into the repository.
func (c *Repository) File(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.Dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Index indexes the repository anew, with another time of change.
func (c *Repository) Index(t testing.TB) {
	t.Helper()
	index, err := repo.IndexDirectory(c.Dir, "")
	if err != nil {
		t.Fatal(err)
	}
	index.SortEntries()
	file := filepath.Join(c.Dir, "index.yaml")
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
