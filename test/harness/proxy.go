// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Proxy stands between an operator and the API server. It records what passes,
// and fails as a test wants it to. Towards the operator it speaks plain HTTP
// and asks for no credentials; towards the API server it is the administrator.
type Proxy struct {
	address string
	backend *httputil.ReverseProxy
	server  *http.Server

	mu       sync.Mutex
	requests []Request
	hook     func(Request) Action
	conns    map[net.Conn]bool
	off      bool
	refused  int
	active   int       // requests under way, but watches and housekeeping
	last     time.Time // when the last of them ended

	hooks sync.Mutex // hooks are asked one at a time
}

// StartProxy starts a proxy in front of the control plane's API server. It ends with the test.
func (e *Env) StartProxy() *Proxy {
	e.Helper()
	config := e.Cluster.Config()
	target, err := url.Parse(config.Host)
	if err != nil {
		e.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		e.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(e.Ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		e.Fatal(err)
	}
	silent := log.New(io.Discard, "", 0)
	p := &Proxy{address: listener.Addr().String(), conns: map[net.Conn]bool{}, last: time.Now()}
	p.backend = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // a watch's events go on at once
		ErrorLog:      silent,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { hangUp() },
	}
	p.server = &http.Server{Handler: p, ConnState: p.track, ErrorLog: silent, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			e.Errorf("the proxy ended: %v", err)
		}
	}()
	e.Cleanup(func() {
		_ = p.server.Close()
		<-done
	})
	return p
}

// Config returns a configuration for an operator behind the proxy.
func (p *Proxy) Config() *rest.Config { return &rest.Config{Host: "http://" + p.address, QPS: -1} }

// OnWrite has the hook asked about every request but get, list and watch before
// it is forwarded, one at a time. Nil takes the hook away.
func (p *Proxy) OnWrite(hook func(Request) Action) {
	p.setHook(func(r Request) Action {
		if hook == nil || !r.Write() {
			return Forward()
		}
		return hook(r)
	})
}

// OnRequest has the hook asked about every request, watches too, in place of
// that of OnWrite.
func (p *Proxy) OnRequest(hook func(Request) Action) { p.setHook(hook) }

func (p *Proxy) setHook(hook func(Request) Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

// Off closes all connections, and new ones as they come, until On.
func (p *Proxy) Off() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off, p.refused = true, 0
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// On ends what Off began.
func (p *Proxy) On() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = false
}

// Refused returns how many connections were refused since Off was called.
func (p *Proxy) Refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// Requests returns what passed so far, oldest first, in the order of arrival:
// all of it, or the requests that all filters select.
func (p *Proxy) Requests(filters ...func(Request) bool) []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Request
	for _, r := range p.requests {
		if !slices.ContainsFunc(filters, func(f func(Request) bool) bool { return !f(r) }) {
			out = append(out, r)
		}
	}
	return out
}

// Reset forgets the requests that passed.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = nil
}

// Quiet returns for how long no request was under way, not counting watches
// and housekeeping.
func (p *Proxy) Quiet() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active > 0 {
		return 0
	}
	return time.Since(p.last)
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := readRequest(r)
	if err != nil {
		hangUp()
	}
	if request.Verb != "watch" && !request.Housekeeping() {
		p.count(1)
		defer p.count(-1)
	}
	action := p.decide(request)
	switch action.verdict {
	case forward:
		p.backend.ServeHTTP(w, r)
	case answer:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(action.code)
		_ = json.NewEncoder(w).Encode(statusOf(request, action.code))
	case dropResponse:
		p.deliver(r)
		if action.then != nil {
			action.then()
		}
		hangUp()
	case drop:
		hangUp()
	}
}

// decide records the request and asks the hook.
func (p *Proxy) decide(r Request) Action {
	p.hooks.Lock()
	defer p.hooks.Unlock()
	p.mu.Lock()
	hook := p.hook
	p.requests = append(p.requests, r)
	p.mu.Unlock()
	if hook == nil {
		return Forward()
	}
	return hook(r)
}

// deliver forwards a request even if its sender dies meanwhile, and discards the response.
func (p *Proxy) deliver(r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), Wait)
	defer cancel()
	r = r.Clone(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	defer func() { _ = recover() }() // the backend hangs up when the API server does
	p.backend.ServeHTTP(&discardResponse{header: http.Header{}}, r)
}

func (p *Proxy) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active += n
	p.last = time.Now()
}

// track follows the server's connections, and closes them while the proxy is off.
func (p *Proxy) track(conn net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		if p.off {
			p.refused++
			_ = conn.Close()
			return
		}
		p.conns[conn] = true
	case http.StateClosed, http.StateHijacked:
		delete(p.conns, conn)
	case http.StateActive, http.StateIdle:
	}
}

// hangUp ends a handler so that its connection closes without an answer.
func hangUp() { panic(http.ErrAbortHandler) }

// discardResponse is where a response goes that nobody is to see.
type discardResponse struct{ header http.Header }

func (d *discardResponse) Header() http.Header         { return d.header }
func (d *discardResponse) Write(p []byte) (int, error) { return len(p), nil }
func (d *discardResponse) WriteHeader(int)             {}
