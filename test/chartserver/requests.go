// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartserver

import (
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Requests remembers what a server was asked for. The zero value is empty.
type Requests struct {
	mu   sync.Mutex
	list []Request
}

// Request is one of them, and how it was answered.
type Request struct {
	Method, Path, Authorization string
	// Conditional is true where it asked for what has changed since.
	Conditional bool
	// Status of the answer.
	Status int
}

// Wrap has the handler's requests remembered.
func (r *Requests) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, req)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = append(r.list, Request{
			Method: req.Method, Path: req.URL.Path, Authorization: req.Header.Get("Authorization"),
			Conditional: req.Header.Get("If-None-Match") != "" || req.Header.Get("If-Modified-Since") != "",
			Status:      answer.status,
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

// Take returns what was asked for since it was last called.
func (r *Requests) Take() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

// Expect fails the test unless exactly these paths were asked for since the last Take.
func (r *Requests) Expect(t testing.TB, what string, paths ...string) []Request {
	t.Helper()
	list := r.Take()
	var got []string
	for _, s := range list {
		got = append(got, s.Path)
	}
	if strings.Join(got, " ") != strings.Join(paths, " ") {
		t.Errorf("%s: the server was asked for %v, want %v", what, got, paths)
	}
	return list
}
