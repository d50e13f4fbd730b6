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
)

func TestRegistryExactVersionAndRange(t *testing.T) {
	b, reg := newBench(t, nil), newOCIRegistry(t)
	b.secrets["team/repo"] = caSecret(reg.Server, nil)
	reg.push(t, "shop", "1.0.0")
	reg.push(t, "shop", "1.1.0+build.5")
	reg.push(t, "shop", "2.0.0")
	exact := helmApp("oci://"+reg.host()+"/charts/shop", "version", "1.0.0")
	c := b.must(t, exact)
	if c.Name() != "shop" || c.Origin.Version != "1.0.0" || c.Recheck != 0 {
		t.Errorf("found %s %+v", c.Name(), c.Origin)
	}
	for _, s := range reg.requests.take() {
		if strings.Contains(s.path, "/tags/") {
			t.Error("an exact version needs no list of tags")
		}
	}
	// The last part of the path may be given as name as well.
	app := helmApp("oci://"+reg.host()+"/charts", "name", "shop", "version", "^1.0.0")
	first := b.must(t, app)
	if first.Origin.Version != "1.1.0+build.5" || first.Recheck != 10*time.Minute {
		t.Errorf("found %+v, recheck %s", first.Origin, first.Recheck)
	}
	reg.requests.take()
	b.clock.Step(10 * time.Minute)
	if again := b.must(t, app); again.Chart != first.Chart {
		t.Error("the chart is another one")
	}
	reg.requests.expect(t, "nothing new", "/v2/charts/shop/tags/list")

	reg.push(t, "shop", "1.3.0")
	b.clock.Step(10 * time.Minute)
	if next := b.must(t, app); next.Origin.Version != "1.3.0" || next.Digest == first.Digest {
		t.Errorf("found %+v", next.Origin)
	}
	reg.requests.take()

	reg.set(func() { reg.down = true })
	b.clock.Step(10 * time.Minute)
	if c := b.must(t, app); c.Origin.Version != "1.3.0" || !is(c.Stale, v1alpha1.ReasonRepositoryUnreachable) || !strings.Contains(c.Stale.Error(), "503") {
		t.Errorf("found %+v, stale %v", c.Origin, c.Stale)
	}
	e := b.refused(t, helmApp("oci://"+reg.host()+"/charts/shop", "version", "2.0.0"), v1alpha1.ReasonRepositoryUnreachable, "503")
	if e.Terminal {
		t.Error("it is terminal")
	}
}

func TestRegistrySaysWhatIsMissing(t *testing.T) {
	b, reg := newBench(t, nil), newOCIRegistry(t)
	b.secrets["team/repo"] = caSecret(reg.Server, nil)
	reg.push(t, "shop", "1.0.0")
	b.refused(t, helmApp("oci://"+reg.host()+"/charts/shop", "version", "9.0.0"), v1alpha1.ReasonVersionNotFound, "9.0.0")
	b.refused(t, helmApp("oci://"+reg.host()+"/charts/shop", "version", "^9"), v1alpha1.ReasonVersionNotFound, "newest are 1.0.0")
	b.refused(t, helmApp("oci://"+reg.host()+"/charts/blog", "version", "^1"), v1alpha1.ReasonChartNotFound)
}

func TestRegistryIsPrivate(t *testing.T) {
	reg := newOCIRegistry(t)
	reg.push(t, "shop", "1.0.0")
	reg.set(func() { reg.password = "s3cret-word" })
	docker := func(server string) map[string]string {
		auth := base64.StdEncoding.EncodeToString([]byte("ann:s3cret-word"))
		return map[string]string{".dockerconfigjson": fmt.Sprintf(`{"auths":{%q:{"auth":%q},"example.com":{"auth":"x"}}}`, server, auth)}
	}
	for name, data := range map[string]map[string]string{
		"basic":                      {"username": "ann", "password": "s3cret-word"},
		"Docker":                     docker(reg.host()),
		"Docker, with a path":        docker("https://" + reg.host() + "/charts"),
		"Docker, as old clients did": docker("https://" + reg.host() + "/v1/"),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.secrets["team/repo"] = caSecret(reg.Server, data)
			b.must(t, helmApp("oci://"+reg.host()+"/charts/shop", "version", "1.0.0"))
			b.must(t, helmApp("oci://"+reg.host()+"/charts/shop", "version", "^1"))
		})
	}
	b := newBench(t, nil)
	b.secrets["team/repo"] = caSecret(reg.Server, map[string]string{"username": "ann", "password": "guessed"})
	e := b.refused(t, helmApp("oci://"+reg.host()+"/charts/shop", "version", "1.0.0"), v1alpha1.ReasonAuthenticationFailed, "401")
	if strings.Contains(e.Error(), "guessed") || !e.Terminal {
		t.Errorf("error: %#v", e)
	}
	b.secrets["team/repo"] = caSecret(reg.Server, nil)
	b.refused(t, helmApp("oci://"+reg.host()+"/charts/shop", "version", "^1"), v1alpha1.ReasonAuthenticationFailed)
	b.secrets["team/repo"] = caSecret(reg.Server, docker("example.org"))
	b.refused(t, helmApp("oci://"+reg.host()+"/charts/shop", "version", "^1"), v1alpha1.ReasonRepositorySecretInvalid, "no entry for")
	b.secrets["team/repo"] = caSecret(reg.Server, map[string]string{".dockerconfigjson": `{"auths": "s3cret-word"}`})
	if e := b.refused(t, helmApp("oci://"+reg.host()+"/charts/shop", "version", "^1"), v1alpha1.ReasonRepositorySecretInvalid, "kubectl create secret"); strings.Contains(e.Error(), "s3cret-word") {
		t.Errorf("the Secret shows: %v", e)
	}
}

func TestRegistryBlobsFromAnotherHostGetNoCredentials(t *testing.T) {
	reg := newOCIRegistry(t)
	reg.push(t, "shop", "1.0.0")
	var elsewhere requests
	storage := quiet(newTLSServer(t, elsewhere.wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Query().Get("signature") != "abc" {
			http.Error(w, "not signed", http.StatusForbidden)
			return
		}
		req = req.Clone(req.Context())
		req.RequestURI, req.Host = "", reg.host()
		req.URL.Scheme, req.URL.Host, req.URL.RawQuery = "https", reg.host(), ""
		req.SetBasicAuth("ann", "inside")
		resp, err := reg.Client().Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer resp.Body.Close()
		copyResponse(w, resp)
	}))))
	front := quiet(newTLSServer(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
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
		req.URL.Scheme, req.URL.Host = "https", reg.host()
		resp, err := reg.Client().Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer resp.Body.Close()
		copyResponse(w, resp)
	})))
	b := newBench(t, nil)
	b.secrets["team/repo"] = caSecret(front, map[string]string{"username": "ann", "password": "s3cret-word"})
	b.must(t, helmApp("oci://"+strings.TrimPrefix(front.URL, "https://")+"/charts/shop", "version", "1.0.0"))
	list := elsewhere.take()
	if len(list) == 0 {
		t.Fatal("nothing was fetched from the other host")
	}
	for _, s := range list {
		if s.authorization != "" || s.status != http.StatusOK {
			t.Errorf("request: %+v", s)
		}
	}
	// A signed address stays out of the message when it fails.
	storage.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	b = newBench(t, nil)
	b.secrets["team/repo"] = caSecret(front, map[string]string{"username": "ann", "password": "s3cret-word"})
	if e := b.refused(t, helmApp("oci://"+strings.TrimPrefix(front.URL, "https://")+"/charts/shop", "version", "1.0.0"), v1alpha1.ReasonRepositoryUnreachable); strings.Contains(e.Error(), "signature") {
		t.Errorf("the message shows a signed address: %v", e)
	}
}

func TestAnIndexMayListChartsOfARegistry(t *testing.T) {
	b, reg, charts := newBench(t, nil), newOCIRegistry(t), newChartRepo(t)
	b.secrets["team/repo"] = caSecret(reg.Server, map[string]string{"username": "ann", "password": "s3cret-word"})
	reg.push(t, "shop", "1.0.0")
	charts.answer(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "apiVersion: v1\nentries:\n  shop:\n  - version: 1.0.0\n    urls: [oci://%s/charts/shop:1.0.0]\n", reg.host())
	})
	c := b.must(t, helmApp(charts.URL, "name", "shop", "version", "1.0.0"))
	if c.Name() != "shop" {
		t.Errorf("found %s", c.Name())
	}
	for _, s := range reg.requests.take() {
		if s.authorization != "" {
			t.Error("the registry got the chart repository's credentials")
		}
	}
}
