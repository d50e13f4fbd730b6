// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// userAgent of all requests.
const userAgent = "chartgate"

// Limits of what is taken from a repository.
type Limits struct {
	// IndexBytes of an index, or of a registry's list of tags, unpacked. Default: 64 MiB.
	IndexBytes int64
	// ChartBytes of a chart's archive. Default: 10 MiB.
	ChartBytes int64
	// UnpackedBytes of a chart. Default: 40 MiB.
	UnpackedBytes int64
	// Redirects of one request. Default: 5.
	Redirects int
	// Timeout of one look-up or download. Default: 1 minute.
	Timeout time.Duration
}

func (l Limits) withDefaults() Limits {
	if l.IndexBytes == 0 {
		l.IndexBytes = 64 << 20
	}
	if l.ChartBytes == 0 {
		l.ChartBytes = 10 << 20
	}
	if l.UnpackedBytes == 0 {
		l.UnpackedBytes = 40 << 20
	}
	if l.Redirects == 0 {
		l.Redirects = 5
	}
	if l.Timeout == 0 {
		l.Timeout = time.Minute
	}
	return l
}

// session is one look-up or download. All its requests, redirected ones too, go
// through its RoundTrip, which keeps to the policy and the limits. Helm's own
// getter for chart repositories knows neither limits nor conditional requests,
// and its registry client takes no context: hence this.
type session struct {
	ctx    context.Context //nolint:containedctx // Helm's registry client takes none
	policy *policy
	origin *url.URL // of the repository, with the scheme that is really used
	plain  bool     // plain HTTP is allowed
	access *access
	basic  bool // send user and password to the origin without being asked
	own    *http.Transport
	other  *http.Transport
	client *http.Client

	mu     sync.Mutex
	left   int64 // bytes that may still be read
	failed error // what the policy or a limit refused first
}

// open starts a session with the repository at origin. Close it.
func (r *Repository) open(ctx context.Context, q *query, bytes int64) (*session, error) {
	origin := &url.URL{Scheme: q.url.Scheme, Host: q.url.Host}
	plainHTTP := r.policy.allowsPlain(q.url)
	if q.oci {
		origin.Scheme = "https"
		if plainHTTP {
			origin.Scheme = "http"
		}
	}
	access, err := q.credentials.access(q.url)
	if err != nil {
		return nil, err
	}
	s := &session{ctx: ctx, policy: r.policy, origin: origin, plain: plainHTTP, access: access, basic: !q.oci, left: bytes}
	s.own = s.transport(access.certificates)
	s.other = s.own
	if len(access.certificates) > 0 {
		s.other = s.transport(nil)
	}
	s.client = &http.Client{Transport: s, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > r.limits.Redirects {
			return s.refuse(absent(v1alpha1.ReasonRepositoryInvalid, "%s redirects more than %d times", place(via[0].URL), r.limits.Redirects))
		}
		return nil
	}}
	return s, nil
}

func (s *session) close() {
	s.own.CloseIdleConnections()
	s.other.CloseIdleConnections()
}

func (s *session) transport(certificates []tls.Certificate) *http.Transport {
	proxies := &sync.Map{}
	direct := &net.Dialer{Timeout: 10 * time.Second}
	guarded := &net.Dialer{Timeout: 10 * time.Second, Control: s.control}
	return &http.Transport{
		Proxy: func(req *http.Request) (*url.URL, error) {
			proxy, err := http.ProxyFromEnvironment(req)
			if proxy != nil {
				proxies.Store(hostPort(proxy), true)
			}
			return proxy, err
		},
		// The proxy is the operator's own choice; what is reached through it is its business.
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if _, ok := proxies.Load(addr); ok {
				return direct.DialContext(ctx, network, addr)
			}
			return guarded.DialContext(ctx, network, addr)
		},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.access.roots, Certificates: certificates},
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  30 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        10 * time.Second,
		ForceAttemptHTTP2:      true,
	}
}

func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), defaultPort(u.Scheme))
}

// control is called with the address that a name was resolved to, right before
// the connection is made: a name that resolves to another address the next time
// gets nowhere.
func (s *session) control(_, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if !s.policy.allowsAddress(addr.Addr()) {
		return s.refuse(absent(v1alpha1.ReasonRepositoryNotAllowed, "%s leads to address %s, which this operator does not connect to: it is on its own machine or link, or a cloud's metadata service",
			place(s.origin), addr.Addr()))
	}
	return nil
}

// refuse remembers the first refusal: libraries on the way up may lose it.
func (s *session) refuse(err *Error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
	}
	return err
}

// fault says why the session failed.
func (s *session) fault(what string, err error) *Error {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	if failed != nil {
		return fault(what, failed)
	}
	if s.ctx.Err() != nil {
		err = errors.Join(err, s.ctx.Err())
	}
	return fault(what, err)
}

// RoundTrip implements http.RoundTripper.
func (s *session) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.URL.Scheme {
	case "https":
	case "http":
		if (!s.plain || req.URL.Host != s.origin.Host) && !s.policy.allowsPlain(req.URL) {
			return nil, s.refuse(absent(v1alpha1.ReasonRepositoryNotAllowed, "%s leads to %s, which is reached without TLS; this operator does not allow that", place(s.origin), place(req.URL)))
		}
	default:
		return nil, s.refuse(absent(v1alpha1.ReasonRepositoryInvalid, "%s leads to %s: only https is followed", place(s.origin), place(req.URL)))
	}
	out := req.Clone(s.ctx)
	atHome := sameOrigin(req.URL, s.origin)
	if movedHost(req) {
		out.Header.Del("Authorization")
		out.Header.Del("Cookie")
	}
	if s.basic && atHome && s.access.username != "" && out.Header.Get("Authorization") == "" {
		out.SetBasicAuth(s.access.username, s.access.password)
	}
	transport := s.other
	if atHome {
		transport = s.own
	}
	resp, err := transport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	if resp.ContentLength > s.remaining() {
		_ = resp.Body.Close()
		return nil, s.tooLarge()
	}
	resp.Body = &countedBody{ReadCloser: resp.Body, session: s}
	return resp, nil
}

// movedHost tells whether a redirect led to another host than was asked first.
// Go's client keeps credentials for other ports and for subdomains of it.
func movedHost(req *http.Request) bool {
	first := req
	for first.Response != nil && first.Response.Request != nil {
		first = first.Response.Request
	}
	return !sameOrigin(first.URL, req.URL)
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && hostPort(a) == hostPort(b)
}

func (s *session) tooLarge() error {
	return s.refuse(absent(v1alpha1.ReasonChartTooLarge, "%s sends more than this operator takes", place(s.origin)))
}

func (s *session) remaining() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

func (s *session) spend(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left -= int64(n)
	return s.left >= 0
}

// countedBody fails once the session has read all it may.
type countedBody struct {
	io.ReadCloser
	session *session
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !b.session.spend(n) {
		return 0, b.session.tooLarge()
	}
	if errors.Is(err, io.EOF) && b.session.ctx.Err() != nil {
		// Giving up tells the server, which may end what it sends just like an answer that is whole.
		return n, b.session.ctx.Err()
	}
	return n, err
}

// get asks for a URL. The caller closes the body of an answer, which is 200 or, where asked for, 304.
func (s *session) get(what string, u *url.URL, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, fault(what, err)
	}
	req.Header = header
	req.Header.Set("User-Agent", userAgent)
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, s.fault(what, err)
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNotModified {
		return resp, nil
	}
	_ = resp.Body.Close()
	return nil, answered(what, resp.StatusCode, http.StatusText(resp.StatusCode))
}
