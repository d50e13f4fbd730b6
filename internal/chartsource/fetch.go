// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// archive is a chart as it was fetched.
type archive struct {
	data      []byte
	signature []byte // its provenance file, where it was asked for and there is one
	manifest  string // digest of the manifest in a registry
}

// fetch gets the archive of a candidate, and checks that it is the one that the
// index lists.
func (r *Repository) fetch(ctx context.Context, q *query, c candidate) (*archive, error) {
	free, err := r.slots.take(ctx, q.namespace)
	if err != nil {
		return nil, err
	}
	defer free()
	ctx, cancel := context.WithTimeout(ctx, r.limits.Timeout)
	defer cancel()
	if q.oci {
		s, err := r.open(ctx, q, r.limits.ChartBytes)
		if err != nil {
			return nil, err
		}
		defer s.close()
		return s.pull(q.url, c.version, q.verify)
	}
	u, err := archiveURL(q, c)
	if err != nil {
		return nil, err
	}
	a, err := r.download(ctx, q, u, c)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(a.data)
	have, want := hex.EncodeToString(sum[:]), strings.TrimPrefix(strings.ToLower(c.digest), "sha256:")
	if want != "" && want != have && "sha256:"+want != a.manifest {
		return nil, absent(v1alpha1.ReasonDigestMismatch, "chart %s %s from %s has sha256 %s, and the repository's index lists %s: it was changed or replaced; it is not used",
			q.name, c.version, place(u), have, plain(want))
	}
	return a, nil
}

// download gets an archive from where the index says it is.
func (r *Repository) download(ctx context.Context, q *query, u *url.URL, c candidate) (*archive, error) {
	if u.Scheme == "oci" { // a chart repository may list charts of a registry
		elsewhere := &query{namespace: q.namespace, url: u, oci: true, credentials: q.credentials.trustOnly()}
		version := c.version
		if name, tag, ok := strings.Cut(path.Base(u.Path), ":"); ok {
			elsewhere.url.Path, version = path.Join(path.Dir(u.Path), name), tag
		}
		if u.Host == q.url.Host {
			elsewhere.credentials = q.credentials
		}
		s, err := r.open(ctx, elsewhere, r.limits.ChartBytes)
		if err != nil {
			return nil, err
		}
		defer s.close()
		return s.pull(elsewhere.url, version, q.verify)
	}
	s, err := r.open(ctx, q, r.limits.ChartBytes)
	if err != nil {
		return nil, err
	}
	defer s.close()
	a := &archive{}
	if a.data, err = s.download("chart archive "+place(u), u); is(err, v1alpha1.ReasonChartNotFound) {
		return nil, absent(v1alpha1.ReasonVersionNotFound, "%w; the repository's index lists it", err)
	}
	if err != nil || !q.verify {
		return a, err
	}
	prov := *u
	prov.Path += ".prov"
	prov.RawPath = ""
	if a.signature, err = s.download("provenance file "+place(&prov), &prov); is(err, v1alpha1.ReasonChartNotFound) {
		err = nil // said by whoever verifies it
	}
	return a, err
}

// download reads one file.
func (s *session) download(what string, u *url.URL) ([]byte, error) {
	resp, err := s.get(what, u, http.Header{"Accept-Encoding": {"identity"}})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, s.fault(what, err)
	}
	if resp.ContentLength >= 0 && resp.ContentLength != int64(len(data)) {
		return nil, passing("%s: it ended early", what)
	}
	return data, nil
}

// faultyReader remembers what reading failed with, so that it can be told from
// faults in what was read.
type faultyReader struct {
	io.Reader
	err error
}

func (r *faultyReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}
