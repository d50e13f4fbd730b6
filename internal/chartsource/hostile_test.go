// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/chartserver"
)

func newTLSServer(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := chartserver.Quiet(httptest.NewUnstartedServer(h))
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func copyResponse(w http.ResponseWriter, resp *http.Response) {
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

func small(o *Options) {
	o.Limits = Limits{IndexBytes: 64 << 10, ChartBytes: 32 << 10, UnpackedBytes: 256 << 10, Timeout: 2 * time.Second}
}

const oneChart = "apiVersion: v1\nentries:\n  shop:\n  - version: 1.0.0\n    urls: [shop-1.0.0.tgz]\n"

func TestAnswersAreBounded(t *testing.T) {
	zeros := func(w io.Writer, n int) { // in pieces, without a Content-Length
		for range n >> 10 {
			if _, err := w.Write(bytes.Repeat([]byte("#"), 1<<10)); err != nil {
				return
			}
		}
	}
	zipped := func(n int) []byte {
		var buf bytes.Buffer
		zw := gzip.NewWriter(&buf)
		zeros(zw, n)
		_ = zw.Close()
		return buf.Bytes()
	}
	bomb := chartserver.Pack(t, "shop", map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n", "big": strings.Repeat("0", 1<<20),
	})
	nested := chartserver.Pack(t, "shop", map[string]string{
		"Chart.yaml":       "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"charts/inner.tgz": string(chartserver.Pack(t, "inner", map[string]string{"Chart.yaml": "apiVersion: v2\nname: inner\nversion: 1.0.0\n", "big": strings.Repeat("0", 1<<20)})),
	})
	index := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, oneChart) }
	cases := map[string]struct {
		index, archive http.HandlerFunc
		reason         string
	}{
		"an endless index":              {func(w http.ResponseWriter, _ *http.Request) { zeros(w, 64<<20) }, nil, v1alpha1.ReasonChartTooLarge},
		"an index that says it is huge": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "99999999999") }, nil, v1alpha1.ReasonChartTooLarge},
		"an index that is a gzip bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped(32 << 20))
		}, nil, v1alpha1.ReasonChartTooLarge},
		"an endless archive":             {index, func(w http.ResponseWriter, _ *http.Request) { zeros(w, 64<<20) }, v1alpha1.ReasonChartTooLarge},
		"an archive that is a gzip bomb": {index, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bomb) }, v1alpha1.ReasonChartTooLarge},
		"a bomb in a packed subchart":    {index, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nested) }, v1alpha1.ReasonChartTooLarge},
		"an archive that is none":        {index, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, v1alpha1.ReasonChartInvalid},
		"an archive that ends early": {index, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write(bomb[:100])
		}, v1alpha1.ReasonRepositoryUnreachable},
		"half an archive": {index, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nested[:len(nested)/2]) }, v1alpha1.ReasonChartInvalid},
		"an index that is a page": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<!DOCTYPE html>\n<html><body>a: [</body>\n")
		}, nil, v1alpha1.ReasonRepositoryInvalid},
		"an index that is broken JSON": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"apiVersion": "v1", "entries": {"shop": [{`)
		}, nil, v1alpha1.ReasonRepositoryInvalid},
		"an index that is empty":   {func(http.ResponseWriter, *http.Request) {}, nil, v1alpha1.ReasonRepositoryInvalid},
		"an index of another kind": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "kind: Pod\n") }, nil, v1alpha1.ReasonRepositoryInvalid},
		"a chart that is broken in it": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "apiVersion: v1\nentries:\n  shop:\n  - [\n")
		}, nil, v1alpha1.ReasonRepositoryInvalid},
		"an index that comes by the drop":   {drip, nil, v1alpha1.ReasonRepositoryUnreachable},
		"an archive that comes by the drop": {index, drip, v1alpha1.ReasonRepositoryUnreachable},
		"endless redirects": {func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, req.URL.Path+"x", http.StatusFound)
		}, nil, v1alpha1.ReasonRepositoryInvalid},
		"a redirect to plain HTTP": {func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "http://example.com/", http.StatusFound)
		}, nil, v1alpha1.ReasonRepositoryNotAllowed},
		"a redirect to a file": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		}, nil, v1alpha1.ReasonRepositoryInvalid},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTLSServer(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if c.archive != nil && strings.HasSuffix(req.URL.Path, ".tgz") {
					c.archive(w, req)
					return
				}
				c.index(w, req)
			}))
			b := newBench(t, func(o *Options) {
				small(o)
				if !strings.Contains(name, "by the drop") {
					o.Limits.Timeout = time.Minute
				}
			})
			b.secrets["team/repo"] = chartserver.CASecret(s, nil)
			b.refused(t, helmApp(s.URL, "name", "shop", "version", "1.0.0"), c.reason)
		})
	}
}

// drip sends a byte now and then, until the other side has enough.
func drip(w http.ResponseWriter, req *http.Request) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-req.Context().Done():
			return
		case <-tick.C:
			if _, err := io.WriteString(w, "#"); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}

func TestASlowRepositoryDoesNotHoldTheResource(t *testing.T) {
	release := make(chan struct{})
	charts := chartserver.NewRepository(t)
	charts.Add(t, "shop", "1.0.0")
	files := http.FileServer(http.Dir(charts.Dir))
	charts.Answer(func(w http.ResponseWriter, req *http.Request) {
		<-release
		files.ServeHTTP(w, req)
	})
	b := newBench(t, func(o *Options) { o.Wait = 20 * time.Millisecond })
	b.secrets["team/repo"] = chartserver.CASecret(charts.Server, nil)
	app := helmApp(charts.URL, "name", "shop", "version", "1.0.0")
	e := b.refused(t, app, v1alpha1.ReasonRepositoryUnreachable, "still waiting")
	if e.Terminal || e.RetryAfter != slowRetry {
		t.Errorf("error: %#v", e)
	}
	// Whoever asks again does not wait that long again.
	b.wait = time.Hour
	b.refused(t, app, v1alpha1.ReasonRepositoryUnreachable, "still waiting")
	close(release)
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, err := b.Resolve(t.Context(), app); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	charts.Requests.Expect(t, "all", "/index.yaml", "/shop-1.0.0.tgz")
}

func TestATenantWithSlowRepositoriesHoldsUpNobodyElse(t *testing.T) {
	release, busy := make(chan struct{}), make(chan struct{}, 1000)
	slow := newTLSServer(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		busy <- struct{}{}
		<-release
	}))
	defer close(release)
	charts := chartserver.NewRepository(t)
	charts.Add(t, "shop", "1.0.0")
	b := newBench(t, func(o *Options) { o.Wait = time.Millisecond })
	b.secrets["evil/repo"], b.secrets["team/repo"] = chartserver.CASecret(slow, nil), chartserver.CASecret(charts.Server, nil)
	for i := range 2 * maxAtOnce {
		app := helmApp(fmt.Sprintf("%s/%d", slow.URL, i), "name", "shop", "version", "1.0.0")
		app.SetNamespace("evil")
		b.refused(t, app, v1alpha1.ReasonRepositoryUnreachable, "still waiting")
	}
	for range maxEach {
		<-busy
	}
	b.wait = time.Minute
	b.must(t, helmApp(charts.URL, "name", "shop", "version", "1.0.0"))
	if len(busy) > 0 {
		t.Errorf("%d more requests than a namespace may make", len(busy))
	}
}

func TestARedirectTakesNoCredentialsAlong(t *testing.T) {
	charts := chartserver.NewRepository(t)
	charts.Add(t, "shop", "1.0.0")
	files := http.FileServer(http.Dir(charts.Dir))
	var elsewhere chartserver.Requests
	other := newTLSServer(t, elsewhere.Wrap(files))
	charts.Answer(func(w http.ResponseWriter, req *http.Request) {
		if _, password, _ := req.BasicAuth(); password != "s3cret-word" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		http.Redirect(w, req, other.URL+req.URL.Path, http.StatusFound)
	})
	b := newBench(t, nil)
	b.secrets["team/repo"] = chartserver.CASecret(charts.Server, map[string]string{"username": "ann", "password": "s3cret-word"})
	b.must(t, helmApp(charts.URL, "name", "shop", "version", "1.0.0"))
	for _, s := range elsewhere.Expect(t, "the other host", "/index.yaml", "/shop-1.0.0.tgz") {
		if s.Authorization != "" {
			t.Error("it got the credentials")
		}
	}
	// The same for an archive that the index has on another host.
	charts.Answer(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "apiVersion: v1\nentries:\n  shop:\n  - version: 1.0.0\n    urls: [%s/shop-1.0.0.tgz]\n", other.URL)
	})
	b = newBench(t, nil)
	b.secrets["team/repo"] = chartserver.CASecret(charts.Server, map[string]string{"username": "ann", "password": "s3cret-word"})
	b.must(t, helmApp(charts.URL, "name", "shop", "version", "1.0.0"))
	if s := elsewhere.Expect(t, "the other host", "/shop-1.0.0.tgz"); s[0].Authorization != "" {
		t.Error("it got the credentials")
	}
}

func TestAddressesOfTheMachineAreRefused(t *testing.T) {
	charts := chartserver.NewRepository(t)
	charts.Add(t, "shop", "1.0.0")
	b := newBench(t, func(o *Options) { o.Policy.Networks = nil })
	b.secrets["team/repo"] = chartserver.CASecret(charts.Server, nil)
	e := b.refused(t, helmApp(charts.URL, "name", "shop", "version", "1.0.0"), v1alpha1.ReasonRepositoryNotAllowed, "127.0.0.1")
	if !e.Terminal {
		t.Error("it is not terminal")
	}
	// By a name, it is only known when it is resolved.
	b.refused(t, helmApp(strings.Replace(charts.URL, "127.0.0.1", "localhost", 1), "name", "shop", "version", "1.0.0"), v1alpha1.ReasonRepositoryNotAllowed)
	b.refused(t, helmApp("oci://localhost"+charts.URL[strings.LastIndex(charts.URL, ":"):]+"/shop", "version", "1.0.0"), v1alpha1.ReasonRepositoryNotAllowed)
	charts.Requests.Expect(t, "nothing")
}

func TestPlainHTTPWhereItIsAllowed(t *testing.T) {
	charts := chartserver.NewRepository(t)
	charts.Add(t, "shop", "1.0.0")
	plain := httptest.NewServer(http.FileServer(http.Dir(charts.Dir)))
	t.Cleanup(plain.Close)
	app := helmApp(plain.URL, "name", "shop", "version", "1.0.0", "secretRef", nil)
	newBench(t, nil).refused(t, app, v1alpha1.ReasonRepositoryNotAllowed, "without TLS")
	newBench(t, func(o *Options) { o.Policy.PlainHTTP = []string{"http://127.0.0.1:*"} }).must(t, app)

	reg := chartserver.NewRegistry(t)
	reg.Push(t, "shop", "1.0.0")
	unsafe := httptest.NewServer(reg.Config.Handler)
	t.Cleanup(unsafe.Close)
	app = helmApp("oci://"+strings.TrimPrefix(unsafe.URL, "http://")+"/charts/shop", "version", "1.0.0", "secretRef", nil)
	newBench(t, nil).refused(t, app, v1alpha1.ReasonRepositoryUnreachable)
	newBench(t, func(o *Options) { o.Policy.PlainHTTP = []string{"oci://127.0.0.1:*/charts"} }).must(t, app)
}

func TestPolicyPatterns(t *testing.T) {
	cases := []struct {
		pattern string
		yes, no []string
	}{
		{"https://charts.example.com", []string{"https://charts.example.com", "https://charts.example.com/a/b"}, []string{"http://charts.example.com", "https://charts.example.com:8443", "https://evil.com/charts.example.com", "https://charts.example.com.evil.com"}},
		{"https://charts.example.com/stable/*", []string{"https://charts.example.com/stable", "https://charts.example.com/stable/x/y"}, []string{"https://charts.example.com/stable2", "https://charts.example.com"}},
		{"https://*.example.com", []string{"https://a.example.com", "https://a.b.example.com/x"}, []string{"https://example.com", "https://aexample.com", "https://evil.com/.example.com"}},
		{"oci://ghcr.io/org-?/*", []string{"oci://ghcr.io/org-a/charts/x"}, []string{"oci://ghcr.io/org-ab/x", "oci://ghcr.io/x/org-a", "https://ghcr.io/org-a"}},
		{"https://*:*", []string{"https://a:1", "https://b/x"}, []string{"oci://b/x"}},
		{"https://[::1]:8080/x", []string{"https://[::1]:8080/x"}, []string{"https://[::1]/x"}},
	}
	for _, c := range cases {
		p, err := newPolicy(Policy{Repositories: []string{c.pattern}})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range c.yes {
			if err := p.check(mustURL(t, u)); err != nil {
				t.Errorf("%s: %v", c.pattern, err)
			}
		}
		for _, u := range c.no {
			if err := p.check(mustURL(t, u)); !is(err, v1alpha1.ReasonRepositoryNotAllowed) {
				t.Errorf("%s allows %s", c.pattern, u)
			}
		}
	}
	for _, bad := range []string{"", "charts.example.com", "ftp://x", "https://", "https://a*b", "https://x/[", "https://x/../y", "https://u@x"} {
		if _, err := newPolicy(Policy{Repositories: []string{bad}}); err == nil {
			t.Errorf("%q is taken for a pattern", bad)
		}
	}
	if _, err := newPolicy(Policy{PlainHTTP: []string{"https://x"}}); err == nil {
		t.Error("https is taken for plain HTTP")
	}
}

func TestPolicyAddresses(t *testing.T) {
	p, err := newPolicy(Policy{Networks: []netip.Prefix{netip.MustParsePrefix("169.254.20.0/24")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{"10.0.0.1", "192.168.1.1", "100.64.0.1", "8.8.8.8", "2001:db8::1", "fd12::1", "169.254.20.10", "::ffff:10.0.0.1", "64:ff9b::808:808"} {
		if !p.allowsAddress(netip.MustParseAddr(a)) {
			t.Errorf("%s is refused", a)
		}
	}
	for _, a := range []string{"127.0.0.1", "127.1.2.3", "0.0.0.0", "169.254.169.254", "255.255.255.255", "224.0.0.1", "::", "::1", "fe80::1", "fe80::1%eth0", "ff02::1",
		"::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"} {
		if p.allowsAddress(netip.MustParseAddr(a)) {
			t.Errorf("%s is allowed", a)
		}
	}
}
