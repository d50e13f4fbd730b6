// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/chartserver"
)

func TestRegistryExactVersionAndRange(t *testing.T) {
	b, reg := newBench(t, nil), chartserver.NewRegistry(t)
	b.secrets["team/repo"] = chartserver.CASecret(reg.Server, nil)
	reg.Push(t, "shop", "1.0.0")
	reg.Push(t, "shop", "1.1.0+build.5")
	reg.Push(t, "shop", "2.0.0")
	exact := helmApp("oci://"+reg.Host()+"/charts/shop", "version", "1.0.0")
	c := b.must(t, exact)
	if c.Name() != "shop" || c.Origin.Version != "1.0.0" || c.Recheck != 0 {
		t.Errorf("found %s %+v", c.Name(), c.Origin)
	}
	for _, s := range reg.Requests.Take() {
		if strings.Contains(s.Path, "/tags/") {
			t.Error("an exact version needs no list of tags")
		}
	}
	// The last part of the path may be given as name as well.
	app := helmApp("oci://"+reg.Host()+"/charts", "name", "shop", "version", "^1.0.0")
	first := b.must(t, app)
	if first.Origin.Version != "1.1.0+build.5" || first.Recheck != 10*time.Minute {
		t.Errorf("found %+v, recheck %s", first.Origin, first.Recheck)
	}
	reg.Requests.Take()
	b.clock.Step(10 * time.Minute)
	if again := b.must(t, app); again.Chart != first.Chart {
		t.Error("the chart is another one")
	}
	reg.Requests.Expect(t, "nothing new", "/v2/charts/shop/tags/list")

	reg.Push(t, "shop", "1.3.0")
	b.clock.Step(10 * time.Minute)
	if next := b.must(t, app); next.Origin.Version != "1.3.0" || next.Digest == first.Digest {
		t.Errorf("found %+v", next.Origin)
	}
	reg.Requests.Take()

	reg.Set(func() { reg.Down = true })
	b.clock.Step(10 * time.Minute)
	if c := b.must(t, app); c.Origin.Version != "1.3.0" || !is(c.Stale, v1alpha1.ReasonRepositoryUnreachable) || !strings.Contains(c.Stale.Error(), "503") {
		t.Errorf("found %+v, stale %v", c.Origin, c.Stale)
	}
	e := b.refused(t, helmApp("oci://"+reg.Host()+"/charts/shop", "version", "2.0.0"), v1alpha1.ReasonRepositoryUnreachable, "503")
	if e.Terminal {
		t.Error("it is terminal")
	}
}

func TestRegistrySaysWhatIsMissing(t *testing.T) {
	b, reg := newBench(t, nil), chartserver.NewRegistry(t)
	b.secrets["team/repo"] = chartserver.CASecret(reg.Server, nil)
	reg.Push(t, "shop", "1.0.0")
	b.refused(t, helmApp("oci://"+reg.Host()+"/charts/shop", "version", "9.0.0"), v1alpha1.ReasonVersionNotFound, "9.0.0")
	b.refused(t, helmApp("oci://"+reg.Host()+"/charts/shop", "version", "^9"), v1alpha1.ReasonVersionNotFound, "newest are 1.0.0")
	b.refused(t, helmApp("oci://"+reg.Host()+"/charts/blog", "version", "^1"), v1alpha1.ReasonChartNotFound)
}

func TestRegistryIsPrivate(t *testing.T) {
	reg := chartserver.NewRegistry(t)
	reg.Push(t, "shop", "1.0.0")
	reg.Set(func() { reg.Password = "s3cret-word" })
	docker := func(server string) map[string]string {
		auth := base64.StdEncoding.EncodeToString([]byte("ann:s3cret-word"))
		return map[string]string{".dockerconfigjson": fmt.Sprintf(`{"auths":{%q:{"auth":%q},"example.com":{"auth":"x"}}}`, server, auth)}
	}
	for name, data := range map[string]map[string]string{
		"basic":                      {"username": "ann", "password": "s3cret-word"},
		"Docker":                     docker(reg.Host()),
		"Docker, with a path":        docker("https://" + reg.Host() + "/charts"),
		"Docker, as old clients did": docker("https://" + reg.Host() + "/v1/"),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.secrets["team/repo"] = chartserver.CASecret(reg.Server, data)
			b.must(t, helmApp("oci://"+reg.Host()+"/charts/shop", "version", "1.0.0"))
			b.must(t, helmApp("oci://"+reg.Host()+"/charts/shop", "version", "^1"))
		})
	}
	b := newBench(t, nil)
	b.secrets["team/repo"] = chartserver.CASecret(reg.Server, map[string]string{"username": "ann", "password": "guessed"})
	e := b.refused(t, helmApp("oci://"+reg.Host()+"/charts/shop", "version", "1.0.0"), v1alpha1.ReasonAuthenticationFailed, "401")
	if strings.Contains(e.Error(), "guessed") || !e.Terminal {
		t.Errorf("error: %#v", e)
	}
	b.secrets["team/repo"] = chartserver.CASecret(reg.Server, nil)
	b.refused(t, helmApp("oci://"+reg.Host()+"/charts/shop", "version", "^1"), v1alpha1.ReasonAuthenticationFailed)
	b.secrets["team/repo"] = chartserver.CASecret(reg.Server, docker("example.org"))
	b.refused(t, helmApp("oci://"+reg.Host()+"/charts/shop", "version", "^1"), v1alpha1.ReasonRepositorySecretInvalid, "no entry for")
	b.secrets["team/repo"] = chartserver.CASecret(reg.Server, map[string]string{".dockerconfigjson": `{"auths": "s3cret-word"}`})
	if e := b.refused(t, helmApp("oci://"+reg.Host()+"/charts/shop", "version", "^1"), v1alpha1.ReasonRepositorySecretInvalid, "kubectl create secret"); strings.Contains(e.Error(), "s3cret-word") {
		t.Errorf("the Secret shows: %v", e)
	}
}

func TestRegistryBlobsFromAnotherHostGetNoCredentials(t *testing.T) {
	reg := chartserver.NewRegistry(t)
	reg.Push(t, "shop", "1.0.0")
	var elsewhere chartserver.Requests
	storage := chartserver.Quiet(newTLSServer(t, elsewhere.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Query().Get("signature") != "abc" {
			http.Error(w, "not signed", http.StatusForbidden)
			return
		}
		req = req.Clone(req.Context())
		req.RequestURI, req.Host = "", reg.Host()
		req.URL.Scheme, req.URL.Host, req.URL.RawQuery = "https", reg.Host(), ""
		req.SetBasicAuth("ann", "inside")
		resp, err := reg.Client().Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer resp.Body.Close()
		copyResponse(w, resp)
	}))))
	front := chartserver.Quiet(newTLSServer(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, password, _ := req.BasicAuth(); password != "s3cret-word" {
			w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		if strings.Contains(req.URL.Path, "/blobs/") {
			http.Redirect(w, req, storage.URL+req.URL.Path+"?signature=abc", http.StatusTemporaryRedirect)
			return
		}
		req.RequestURI = ""
		req.URL.Scheme, req.URL.Host = "https", reg.Host()
		resp, err := reg.Client().Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer resp.Body.Close()
		copyResponse(w, resp)
	})))
	b := newBench(t, nil)
	b.secrets["team/repo"] = chartserver.CASecret(front, map[string]string{"username": "ann", "password": "s3cret-word"})
	b.must(t, helmApp("oci://"+strings.TrimPrefix(front.URL, "https://")+"/charts/shop", "version", "1.0.0"))
	list := elsewhere.Take()
	if len(list) == 0 {
		t.Fatal("nothing was fetched from the other host")
	}
	for _, s := range list {
		if s.Authorization != "" || s.Status != http.StatusOK {
			t.Errorf("request: %+v", s)
		}
	}
	// A signed address stays out of the message when it fails.
	storage.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	b = newBench(t, nil)
	b.secrets["team/repo"] = chartserver.CASecret(front, map[string]string{"username": "ann", "password": "s3cret-word"})
	if e := b.refused(t, helmApp("oci://"+strings.TrimPrefix(front.URL, "https://")+"/charts/shop", "version", "1.0.0"), v1alpha1.ReasonRepositoryUnreachable); strings.Contains(e.Error(), "signature") {
		t.Errorf("the message shows a signed address: %v", e)
	}
}

func TestAnIndexMayListChartsOfARegistry(t *testing.T) {
	b, reg, charts := newBench(t, nil), chartserver.NewRegistry(t), chartserver.NewRepository(t)
	b.secrets["team/repo"] = chartserver.CASecret(reg.Server, map[string]string{"username": "ann", "password": "s3cret-word"})
	reg.Push(t, "shop", "1.0.0")
	charts.Answer(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "apiVersion: v1\nentries:\n  shop:\n  - version: 1.0.0\n    urls: [oci://%s/charts/shop:1.0.0]\n", reg.Host())
	})
	c := b.must(t, helmApp(charts.URL, "name", "shop", "version", "1.0.0"))
	if c.Name() != "shop" {
		t.Errorf("found %s", c.Name())
	}
	for _, s := range reg.Requests.Take() {
		if s.Authorization != "" {
			t.Error("the registry got the chart repository's credentials")
		}
	}
}
