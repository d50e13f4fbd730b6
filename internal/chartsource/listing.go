// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/registry"
	"helm.sh/helm/v3/pkg/repo"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// listing is what a repository was found to hold at some time: the index of a
// chart repository, or the tags of a chart in a registry. It is not modified
// once it is made.
type listing struct {
	listed
	index *index   // of a chart repository
	tags  []string // of a registry
}

// cost is about how many bytes the listing takes in memory.
func (l *listing) cost() int64 {
	const each = 192
	n := len(l.tags)
	if l.index != nil {
		n += len(l.index.blocks)
		for _, entries := range l.index.whole {
			n += len(entries)
		}
	}
	return int64(n+1) * each
}

// listed is the record of an index.
type listed struct {
	// AsOf is when the repository last said that this is what it holds.
	AsOf time.Time `json:"asOf"`
	// Blob holds the index.
	Blob string `json:"blob,omitempty"`
	// ETag and LastModified make the next request a conditional one.
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
}

// candidate is a version that was chosen.
type candidate struct {
	version string
	url     string // of the archive; empty for a registry
	digest  string // of the archive, as the index has it; may be empty
}

// listing returns what the repository holds, no older than maxAge where that can
// be found out. With an error it returns what it held when it was last asked, if
// that is known.
func (r *Repository) listing(ctx context.Context, q *query, maxAge time.Duration) (*listing, error) {
	known := r.knownListing(q)
	if known != nil && r.clock.Since(known.AsOf) < maxAge {
		return known, nil
	}
	if err := r.failures.recent(q.listKey, r.clock.Now()); err != nil {
		return known, err
	}
	v, err, _ := r.flights.Do("list "+q.listKey, func() (any, error) {
		known := r.knownListing(q)
		if known != nil && r.clock.Since(known.AsOf) < maxAge {
			return known, nil // somebody else was faster
		}
		next, err := r.list(ctx, q, known)
		if err != nil {
			r.failures.add(q.listKey, asError(err), r.clock.Now())
			return nil, err
		}
		r.failures.clear(q.listKey)
		r.listings.put(q.listKey, next, next.cost())
		if !q.oci {
			r.store.putRecord(q.listKey, next.listed)
		}
		return next, nil
	})
	if err != nil {
		return known, err
	}
	return v.(*listing), nil //nolint:errcheck // the function above returns nothing else
}

// knownListing returns what the repository held when it was last asked.
func (r *Repository) knownListing(q *query) *listing {
	if l, ok := r.listings.get(q.listKey); ok {
		return l
	}
	var record listed
	if q.oci || !r.store.record(q.listKey, &record) {
		return nil
	}
	data, ok := r.store.blob(record.Blob)
	if !ok {
		return nil
	}
	defer data.Close()
	hash := sha256.New()
	x, err := readIndex(io.TeeReader(data, hash), data)
	if err != nil || hex.EncodeToString(hash.Sum(nil)) != record.Blob {
		r.store.dropBlob(record.Blob)
		return nil
	}
	l := &listing{listed: record, index: x}
	r.listings.put(q.listKey, l, l.cost())
	return l
}

// list asks the repository.
func (r *Repository) list(ctx context.Context, q *query, known *listing) (*listing, error) {
	free, err := r.slots.take(ctx, q.namespace)
	if err != nil {
		return nil, err
	}
	defer free()
	ctx, cancel := context.WithTimeout(ctx, r.limits.Timeout)
	defer cancel()
	s, err := r.open(ctx, q, r.limits.IndexBytes)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if q.oci {
		return r.listTags(s, q)
	}
	return r.fetchIndex(s, q, known)
}

// fetchIndex gets the index of a chart repository, unless it is still the known one.
func (r *Repository) fetchIndex(s *session, q *query, known *listing) (*listing, error) {
	what := "chart repository " + place(q.url)
	header := http.Header{}
	if known != nil {
		if known.ETag != "" {
			header.Set("If-None-Match", known.ETag)
		}
		if known.LastModified != "" {
			header.Set("If-Modified-Since", known.LastModified)
		}
	}
	resp, err := s.get(what, q.url.JoinPath("index.yaml"), header)
	if is(err, v1alpha1.ReasonChartNotFound) {
		return nil, absent(v1alpha1.ReasonRepositoryInvalid, "%w; a chart repository has a file index.yaml", err)
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	now := r.clock.Now()
	if resp.StatusCode == http.StatusNotModified {
		if known == nil {
			return nil, passing("%s: it answers 304 to a request without conditions", what)
		}
		next := *known
		next.AsOf = now
		return &next, nil
	}
	blob, err := r.store.create()
	if err != nil {
		return nil, err
	}
	defer blob.abandon()
	body := &faultyReader{Reader: io.TeeReader(resp.Body, blob)}
	x, err := readIndex(body, blob.file)
	if e, ok := errors.AsType[*Error](err); ok {
		return nil, e
	}
	if err != nil && body.err == nil {
		return nil, absent(v1alpha1.ReasonRepositoryInvalid, "%s: its index.yaml is no chart index: %s", what, plain(err.Error()))
	}
	if err != nil {
		return nil, s.fault(what, err)
	}
	digest, err := blob.commit()
	if err != nil {
		return nil, err
	}
	return &listing{
		listed: listed{AsOf: now, Blob: digest, ETag: resp.Header.Get("ETag"), LastModified: resp.Header.Get("Last-Modified")},
		index:  x,
	}, nil
}

// versions returns those of the chart, the newest first.
func (r *Repository) versions(q *query, l *listing) ([]candidate, error) {
	if q.oci {
		out := make([]candidate, 0, len(l.tags))
		for _, tag := range l.tags {
			out = append(out, candidate{version: tag})
		}
		return out, nil
	}
	var blob io.ReaderAt
	if l.index.whole == nil {
		f, ok := r.store.blob(l.Blob)
		if !ok {
			return nil, errCorrupt
		}
		defer f.Close()
		blob = f
	}
	entries, found, err := l.index.entries(q.name, blob)
	if errors.Is(err, errCorrupt) {
		return nil, err
	}
	if err != nil {
		return nil, absent(v1alpha1.ReasonRepositoryInvalid, "chart repository %s: what its index.yaml has of chart %s cannot be read: %s", place(q.url), q.name, plain(err.Error()))
	}
	if !found {
		return nil, absent(v1alpha1.ReasonChartNotFound, "chart repository %s has no chart %s", place(q.url), q.name)
	}
	return sorted(entries), nil
}

// sorted returns the entries that can be used, the newest first.
func sorted(entries []indexEntry) []candidate {
	type parsed struct {
		candidate
		version *semver.Version
	}
	var all []parsed
	for _, e := range entries {
		v, err := semver.NewVersion(e.Version)
		if err != nil || len(e.URLs) == 0 {
			continue
		}
		all = append(all, parsed{candidate{version: e.Version, url: e.URLs[0], digest: e.Digest}, v})
	}
	slices.SortStableFunc(all, func(a, b parsed) int {
		return cmp.Or(b.version.Compare(a.version), strings.Compare(b.version.Metadata(), a.version.Metadata()))
	})
	out := make([]candidate, 0, len(all))
	for _, p := range all {
		out = append(out, p.candidate)
	}
	return out
}

// choose returns the newest version that fits, as helm install --version does.
func choose(q *query, all []candidate) (candidate, error) {
	versions := make([]string, 0, len(all))
	for _, c := range all {
		versions = append(versions, c.version)
	}
	version, err := registry.GetTagMatchingVersionOrConstraint(versions, q.version)
	if err != nil {
		return candidate{}, absent(v1alpha1.ReasonVersionNotFound, "chart %s of %s has no version %s; %s", q.name, place(q.url), q.version, newest(versions))
	}
	return all[slices.Index(versions, version)], nil
}

func newest(versions []string) string {
	if len(versions) == 0 {
		return "it has none at all"
	}
	if len(versions) > 3 {
		versions = versions[:3]
	}
	return "the newest are " + plain(strings.Join(versions, ", "))
}

// archiveURL is where the archive of a candidate is.
func archiveURL(q *query, c candidate) (*url.URL, error) {
	text, err := repo.ResolveReferenceURL(q.url.String(), c.url)
	if err == nil {
		if u, err := url.Parse(text); err == nil && u.Host != "" && u.User == nil {
			return u, nil
		}
	}
	return nil, absent(v1alpha1.ReasonRepositoryInvalid, "chart repository %s: its index has no usable URL for %s %s", place(q.url), q.name, c.version)
}
