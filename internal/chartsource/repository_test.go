// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/chartserver"
)

func TestRepositoryFindsAnExactVersionOnce(t *testing.T) {
	b, charts := newBench(t, nil), chartserver.NewRepository(t)
	charts.Add(t, "shop", "1.0.0", "1.1.0")
	b.secrets["team/repo"] = chartserver.CASecret(charts.Server, nil)
	app := helmApp(charts.URL, "name", "shop", "version", "1.0.0")
	c := b.must(t, app)
	if c.Name() != "shop" || c.Origin.Version != "1.0.0" || c.Metadata.Version != "1.0.0" || len(c.Origin.Archive) != 64 || c.Recheck != 0 || c.Stale != nil {
		t.Errorf("chart: %s %+v, recheck %s, stale %v", c.Name(), c.Origin, c.Recheck, c.Stale)
	}
	if c.Values["max"] != int64(1000000) {
		t.Errorf("values: %#v", c.Values)
	}
	charts.Requests.Expect(t, "first", "/index.yaml", "/shop-1.0.0.tgz")
	b.clock.Step(24 * time.Hour)
	again := b.must(t, app)
	if again.Chart != c.Chart || again.Digest != c.Digest {
		t.Error("the chart is another one")
	}
	charts.Requests.Expect(t, "a day later")
}

func TestRepositoryFollowsARange(t *testing.T) {
	b, charts := newBench(t, nil), chartserver.NewRepository(t)
	charts.Add(t, "shop", "1.0.0", "1.1.0", "2.0.0", "1.2.0-rc.1")
	b.secrets["team/repo"] = chartserver.CASecret(charts.Server, nil)
	app := helmApp(charts.URL+"/", "name", "shop", "version", "^1.0", "updateInterval", "10m")
	first := b.must(t, app)
	if first.Origin.Version != "1.1.0" || first.Recheck != 10*time.Minute {
		t.Fatalf("found %s, recheck %s", first.Origin.Version, first.Recheck)
	}
	charts.Requests.Expect(t, "first", "/index.yaml", "/shop-1.1.0.tgz")

	b.clock.Step(9 * time.Minute)
	if c := b.must(t, app); c.Recheck != time.Minute {
		t.Errorf("recheck %s", c.Recheck)
	}
	charts.Requests.Expect(t, "too early")

	b.clock.Step(time.Minute)
	if c := b.must(t, app); c.Chart != first.Chart || c.Recheck != 10*time.Minute {
		t.Errorf("found %s, recheck %s", c.Origin.Version, c.Recheck)
	}
	if list := charts.Requests.Expect(t, "nothing new", "/index.yaml"); len(list) == 1 && (!list[0].Conditional || list[0].Status != http.StatusNotModified) {
		t.Errorf("the request was not a conditional one: %+v", list)
	}

	charts.Add(t, "shop", "1.2.0")
	b.clock.Step(10 * time.Minute)
	next := b.must(t, app)
	if next.Origin.Version != "1.2.0" || next.Digest == first.Digest {
		t.Errorf("found %s", next.Origin.Version)
	}
	if list := charts.Requests.Expect(t, "a new one", "/index.yaml", "/shop-1.2.0.tgz"); !list[0].Conditional {
		t.Error("the request was not a conditional one")
	}
}

func TestRepositoryUsesETags(t *testing.T) {
	b, charts := newBench(t, nil), chartserver.NewRepository(t)
	charts.Add(t, "shop", "1.0.0")
	b.secrets["team/repo"] = chartserver.CASecret(charts.Server, nil)
	files := http.FileServer(http.Dir(charts.Dir))
	charts.Answer(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		req.Header.Del("If-Modified-Since")
		files.ServeHTTP(w, req)
	})
	app := helmApp(charts.URL, "name", "shop", "version", "1.x")
	b.must(t, app)
	charts.Requests.Take()
	b.clock.Step(time.Hour)
	b.must(t, app)
	if list := charts.Requests.Expect(t, "later", "/index.yaml"); list[0].Status != http.StatusNotModified {
		t.Errorf("answered %d", list[0].Status)
	}
}

func TestManyResourcesMakeOneRequest(t *testing.T) {
	b, charts := newBench(t, nil), chartserver.NewRepository(t)
	charts.Add(t, "shop", "1.0.0")
	charts.Add(t, "blog", "1.0.0")
	started, release := make(chan struct{}, 1), make(chan struct{})
	files := http.FileServer(http.Dir(charts.Dir))
	charts.Answer(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/index.yaml" {
			started <- struct{}{}
			<-release
		}
		files.ServeHTTP(w, req)
	})
	var wg sync.WaitGroup
	results := make([]*Chart, 100)
	for i := range results {
		namespace := fmt.Sprintf("team-%d", i)
		b.secrets[namespace+"/repo"] = chartserver.CASecret(charts.Server, nil)
	}
	for i := range results {
		wg.Go(func() {
			app := helmApp(charts.URL, "name", []string{"shop", "blog"}[i%2], "version", []string{"1.0.0", "^1"}[i/50])
			app.SetNamespace(fmt.Sprintf("team-%d", i))
			c, err := b.Resolve(t.Context(), app)
			if err != nil {
				t.Error(err)
			}
			results[i] = c
		})
	}
	<-started
	close(release)
	wg.Wait()
	if t.Failed() {
		return
	}
	for i := range results {
		if results[i].Chart != results[i%2].Chart {
			t.Fatal("resources with the same chart don't share it")
		}
	}
	count := map[string]int{}
	for _, s := range charts.Requests.Take() {
		count[s.Path]++
	}
	if count["/index.yaml"] != 1 || count["/shop-1.0.0.tgz"] != 1 || count["/blog-1.0.0.tgz"] != 1 {
		t.Errorf("requests: %v", count)
	}
}

func TestTheLastChartStaysWhileTheRepositoryIsDown(t *testing.T) {
	dir := t.TempDir()
	b, charts := newBench(t, func(o *Options) { o.CacheDir = dir }), chartserver.NewRepository(t)
	charts.Add(t, "shop", "1.0.0")
	b.secrets["team/repo"] = chartserver.CASecret(charts.Server, nil)
	app := helmApp(charts.URL, "name", "shop", "version", "^1")
	first := b.must(t, app)
	charts.Answer(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) })
	charts.Requests.Take()

	b.clock.Step(time.Hour)
	c := b.must(t, app)
	if c.Chart != first.Chart || !is(c.Stale, v1alpha1.ReasonRepositoryUnreachable) || c.Recheck < time.Second || c.Recheck > time.Minute {
		t.Errorf("stale %v, recheck %s", c.Stale, c.Recheck)
	}
	charts.Requests.Expect(t, "down", "/index.yaml")
	for range 50 {
		b.must(t, app)
	}
	charts.Requests.Expect(t, "right after")
	b.clock.Step(c.Recheck)
	b.must(t, app)
	charts.Requests.Expect(t, "later", "/index.yaml")

	// Another operator with the same folder, as after a restart of the container.
	charts.Close()
	after := newBench(t, func(o *Options) { o.CacheDir = dir })
	after.secrets["team/repo"] = b.secrets["team/repo"]
	after.clock.SetTime(b.clock.Now())
	c = after.must(t, app)
	if c.Digest != first.Digest || !is(c.Stale, v1alpha1.ReasonRepositoryUnreachable) || c.Origin != first.Origin {
		t.Errorf("after a restart: %+v, stale %v", c.Origin, c.Stale)
	}
	exact := helmApp(charts.URL, "name", "shop", "version", "1.0.0")
	if c := after.must(t, exact); c.Digest != first.Digest {
		t.Error("the index and the archive are known, and the chart is not found")
	}
	after.refused(t, helmApp(charts.URL, "name", "shop", "version", "1.0.1"), v1alpha1.ReasonRepositoryUnreachable)
}

func TestAChartIsSharedOnlyWithTheSameCredentials(t *testing.T) {
	b, charts := newBench(t, nil), chartserver.NewRepository(t)
	charts.Add(t, "shop", "1.0.0")
	files := http.FileServer(http.Dir(charts.Dir))
	charts.Answer(func(w http.ResponseWriter, req *http.Request) {
		if user, password, _ := req.BasicAuth(); user != "ann" || password != "s3cret-word" {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		files.ServeHTTP(w, req)
	})
	b.secrets["team/repo"] = chartserver.CASecret(charts.Server, map[string]string{"username": "ann", "password": "s3cret-word"})
	b.secrets["evil/repo"] = chartserver.CASecret(charts.Server, map[string]string{"username": "ann", "password": "guessed"})
	app := helmApp(charts.URL, "name", "shop", "version", "1.0.0")
	b.must(t, app)
	other := helmApp(charts.URL, "name", "shop", "version", "1.0.0")
	other.SetNamespace("evil")
	e := b.refused(t, other, v1alpha1.ReasonAuthenticationFailed, "401")
	if !e.Terminal || e.RetryAfter <= 0 || strings.Contains(e.Error(), "guessed") {
		t.Errorf("error: %#v", e)
	}
	// Its own index that lists the other's archive by digest gets nothing, either.
	mine := chartserver.NewRepository(t)
	archive := b.must(t, app).Origin.Archive
	mine.Answer(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/index.yaml" {
			http.NotFound(w, req)
			return
		}
		_, _ = fmt.Fprintf(w, "apiVersion: v1\nentries:\n  shop:\n  - version: 1.0.0\n    digest: %s\n    urls: [x.tgz]\n", archive)
	})
	b.secrets["evil/repo"] = chartserver.CASecret(mine.Server, nil)
	other = helmApp(mine.URL, "name", "shop", "version", "1.0.0")
	other.SetNamespace("evil")
	b.refused(t, other, v1alpha1.ReasonVersionNotFound)
	// The right Secret is used at once, without waiting for the failure to be forgotten.
	b.secrets["evil/repo"] = b.secrets["team/repo"]
	other = helmApp(charts.URL, "name", "shop", "version", "1.0.0")
	other.SetNamespace("evil")
	b.must(t, other)
}

func TestRepositorySaysWhatIsMissing(t *testing.T) {
	b, charts := newBench(t, nil), chartserver.NewRepository(t)
	charts.Add(t, "shop", "1.0.0", "1.1.0")
	b.secrets["team/repo"] = chartserver.CASecret(charts.Server, nil)
	e := b.refused(t, helmApp(charts.URL, "name", "blog", "version", "1.0.0"), v1alpha1.ReasonChartNotFound, "has no chart blog")
	if !e.Terminal || e.RetryAfter != 10*time.Minute {
		t.Errorf("error: %#v", e)
	}
	b.refused(t, helmApp(charts.URL, "name", "shop", "version", "1.2.0"), v1alpha1.ReasonVersionNotFound, "no version 1.2.0", "newest are 1.1.0, 1.0.0")
	b.refused(t, helmApp(charts.URL, "name", "shop", "version", ">=3"), v1alpha1.ReasonVersionNotFound)
	b.refused(t, helmApp(charts.URL+"/nowhere", "name", "shop", "version", "1.0.0"), v1alpha1.ReasonRepositoryInvalid, "404", "index.yaml")
	charts.Requests.Take()

	// A version that is published later is found, though the index is not that old.
	charts.Add(t, "shop", "1.2.0")
	b.refused(t, helmApp(charts.URL, "name", "shop", "version", "1.2.0"), v1alpha1.ReasonVersionNotFound)
	charts.Requests.Expect(t, "right after")
	b.clock.Step(missAge)
	b.must(t, helmApp(charts.URL, "name", "shop", "version", "1.2.0"))
	charts.Requests.Expect(t, "half a minute later", "/index.yaml", "/shop-1.2.0.tgz")

	delete(b.secrets, "team/repo")
	b.refused(t, helmApp(charts.URL, "name", "shop", "version", "1.0.0"), v1alpha1.ReasonRepositorySecretInvalid, "Secret repo is missing in namespace team")
	b.refused(t, helmApp(charts.URL, "name", "shop", "version", "1.0.0", "secretRef", nil), v1alpha1.ReasonRepositoryUnreachable, "not trusted", "ca.crt")
	b.secrets["team/repo"] = map[string][]byte{"ca.crt": []byte("x")}
	b.refused(t, helmApp(charts.URL, "name", "shop", "version", "1.0.0"), v1alpha1.ReasonRepositorySecretInvalid, "ca.crt")
}

func TestAnArchiveThatIsNotTheListedOneIsRefused(t *testing.T) {
	b, charts := newBench(t, nil), chartserver.NewRepository(t)
	charts.Add(t, "shop", "1.0.0")
	b.secrets["team/repo"] = chartserver.CASecret(charts.Server, nil)
	charts.File(t, "shop-1.0.0.tgz", chartserver.Pack(t, "shop", map[string]string{"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\ndescription: another\n"}))
	e := b.refused(t, helmApp(charts.URL, "name", "shop", "version", "1.0.0"), v1alpha1.ReasonDigestMismatch, "it is not used")
	if !e.Terminal {
		t.Error("it is not terminal")
	}
	// Indexed anew, it is what it should be.
	charts.Index(t)
	b.clock.Step(2 * time.Minute)
	b.must(t, helmApp(charts.URL, "name", "shop", "version", "1.0.0"))

	// An index that says it is another chart.
	charts.File(t, "blog-3.0.0.tgz", chartserver.PackChart(t, "shop", "1.0.0"))
	charts.Answer(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/sub/index.yaml" {
			_, _ = fmt.Fprint(w, "apiVersion: v1\nentries:\n  blog:\n  - version: 3.0.0\n    urls: [../blog-3.0.0.tgz]\n")
			return
		}
		http.ServeFile(w, req, charts.Dir+req.URL.Path)
	})
	b.refused(t, helmApp(charts.URL+"/sub", "name", "blog", "version", "3.0.0"), v1alpha1.ReasonChartInvalid, "holds chart shop 1.0.0")
}

func TestWhatIsNoChartReferenceIsRefused(t *testing.T) {
	cases := map[string]struct {
		repository string
		fields     []any
		reason     string
		want       string
	}{
		"no scheme":              {"charts.example.com", []any{"name", "a", "version", "1.0.0"}, v1alpha1.ReasonInvalidChartReference, "https://"},
		"a password in the URL":  {"https://u:hunter2@charts.example.com", []any{"name", "a", "version", "1.0.0"}, v1alpha1.ReasonInvalidChartReference, "Secret"},
		"a query":                {"https://charts.example.com/?token=hunter2", []any{"name", "a", "version", "1.0.0"}, v1alpha1.ReasonInvalidChartReference, "nothing after"},
		"dots in the path":       {"https://charts.example.com/a/../b", []any{"name", "a", "version", "1.0.0"}, v1alpha1.ReasonInvalidChartReference, "path"},
		"escapes in the path":    {"https://charts.example.com/a%2fb", []any{"name", "a", "version", "1.0.0"}, v1alpha1.ReasonInvalidChartReference, "escapes"},
		"no name":                {"https://charts.example.com", []any{"version", "1.0.0"}, v1alpha1.ReasonInvalidChartReference, "name is missing"},
		"no version":             {"https://charts.example.com", []any{"name", "a"}, v1alpha1.ReasonInvalidChartReference, "version"},
		"a version that is none": {"https://charts.example.com", []any{"name", "a", "version", "latest"}, v1alpha1.ReasonInvalidChartReference, `"latest"`},
		"an OCI chart with tag":  {"oci://ghcr.io/a/b:1.0.0", []any{"version", "1.0.0"}, v1alpha1.ReasonInvalidChartReference, "no chart in a registry"},
		"upper case in OCI":      {"oci://ghcr.io/A/b", []any{"version", "1.0.0"}, v1alpha1.ReasonInvalidChartReference, "no chart in a registry"},
		"plain HTTP":             {"http://charts.example.com", []any{"name", "a", "version", "1.0.0"}, v1alpha1.ReasonRepositoryNotAllowed, "without TLS"},
	}
	b := newBench(t, nil)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e := b.refused(t, helmApp(c.repository, append(c.fields, "secretRef", nil)...), c.reason, c.want)
			if !e.Terminal || e.RetryAfter != 0 || strings.Contains(e.Error(), "hunter2") {
				t.Errorf("error: %#v", e)
			}
		})
	}
	u := helmApp("x")
	delete(u.Object, "spec")
	b.refused(t, u, v1alpha1.ReasonInvalidChartReference, "spec.chart is missing")
}

func TestAFailureThatPassesIsToldFromOneThatStays(t *testing.T) {
	b, charts := newBench(t, nil), chartserver.NewRepository(t)
	b.secrets["team/repo"] = chartserver.CASecret(charts.Server, nil)
	for status, reason := range map[int]string{500: v1alpha1.ReasonRepositoryUnreachable, 429: v1alpha1.ReasonRepositoryUnreachable, 403: v1alpha1.ReasonAuthenticationFailed, 410: v1alpha1.ReasonRepositoryInvalid} {
		charts.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		app := helmApp(fmt.Sprintf("%s/%d", charts.URL, status), "name", "shop", "version", "1.0.0")
		e := b.refused(t, app, reason, fmt.Sprint(status))
		if e.Terminal != (reason != v1alpha1.ReasonRepositoryUnreachable) {
			t.Errorf("%d: terminal is %t", status, e.Terminal)
		}
	}
	down := charts.URL
	charts.Close()
	e := b.refused(t, helmApp(down, "name", "shop", "version", "1.0.0"), v1alpha1.ReasonRepositoryUnreachable, "connection refused")
	if e.Terminal || e.RetryAfter < firstRetry || e.RetryAfter > lastRetry {
		t.Errorf("error: %#v", e)
	}
}

func BenchmarkResolveKnown(b *testing.B) {
	bench, charts := newBench(b, nil), chartserver.NewRepository(b)
	charts.Add(b, "shop", "1.0.0")
	bench.secrets["team/repo"] = chartserver.CASecret(charts.Server, nil)
	app := helmApp(charts.URL, "name", "shop", "version", "^1.0")
	bench.must(b, app)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bench.Resolve(b.Context(), app); err != nil {
			b.Fatal(err)
		}
	}
}

func TestCheckInterval(t *testing.T) {
	for value, want := range map[any]int32{nil: 0, int64(7): 7, int64(-1): 0, int64(1) << 40: 0, "7": 0} {
		u := helmApp("https://charts.example.com", "checkInterval", value)
		if got := CheckInterval(u); got != want {
			t.Errorf("of %v: %d, want %d", value, got, want)
		}
	}
}
