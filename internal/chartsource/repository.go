// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

const (
	// maxRemembered bounds how many look-ups are remembered.
	maxRemembered = 16 << 10
	// slowRetry is when to ask again for a look-up that goes on.
	slowRetry = 5 * time.Second
	// maxListings bounds the bytes that indexes and lists of tags take in memory.
	maxListings = 32 << 20
)

// Options of a Repository.
type Options struct {
	// Digest of a chart's files.
	Digest func(*chart.Chart) string
	// Policy says which repositories are allowed.
	Policy Policy
	// CacheDir is a folder of its own for what was fetched. It is made where it is missing.
	CacheDir string
	// CacheBytes is how large the folder may become. Default: 256 MiB.
	CacheBytes int64
	// MemoryBytes is how much of loaded charts stays in memory. Default: 64 MiB.
	MemoryBytes int64
	// Limits of what is taken from a repository.
	Limits Limits
	// Wait is how long a resource waits for a look-up or download, which goes on without it. Default: 5 s.
	Wait time.Duration
	// Clock tells when a range is to be looked up again. Default: the real one.
	Clock clock.PassiveClock
}

// Repository finds the charts that resources name in chart repositories and
// registries. Everything it fetches is shared by all resources that ask for the
// same with the same credentials, and only by those.
type Repository struct {
	digest  func(*chart.Chart) string
	policy  *policy
	limits  Limits
	wait    time.Duration
	clock   clock.PassiveClock
	dir     string
	store   *store
	hashKey []byte

	flights  singleflight.Group
	slots    *slots
	unpacks  chan struct{}
	slow     *lru[struct{}] // look-ups that somebody gave up waiting for
	failures *failures
	listings *lru[*listing]
	finds    *lru[*find]
	charts   *lru[*loaded]
}

var _ Source = (*Repository)(nil)

// find is what a query was answered with last. It is not modified once it is made.
type find struct {
	// AsOf is when the repository last said that this is the version that fits.
	AsOf time.Time `json:"asOf"`
	// Version that was found, and the archive's sha256.
	Version string `json:"version"`
	Archive string `json:"archive"`
	// SignedBy tells whose signature was verified.
	SignedBy string `json:"signedBy,omitempty"`
	// Time at which this archive was found first.
	Time time.Time `json:"time"`
	// stale says why the repository could not be asked for a newer one.
	stale error
}

// loaded is a chart in memory.
type loaded struct {
	chart  *chart.Chart
	digest string
}

// NewRepository returns a source that keeps what it fetches in the options' folder.
func NewRepository(o Options) (*Repository, error) {
	p, err := newPolicy(o.Policy)
	if err != nil {
		return nil, err
	}
	s, err := openStore(o.CacheDir, cmp.Or(o.CacheBytes, 256<<20))
	if err != nil {
		return nil, err
	}
	key, err := s.key()
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	r := &Repository{
		digest: o.Digest, policy: p, limits: o.Limits.withDefaults(),
		wait: cmp.Or(o.Wait, 5*time.Second), clock: o.Clock, dir: o.CacheDir, store: s, hashKey: key,
		slots: newSlots(), unpacks: make(chan struct{}, maxUnpacking), failures: newFailures(),
		slow:     newLRU[struct{}](maxRemembered),
		listings: newLRU[*listing](maxListings),
		finds:    newLRU[*find](maxRemembered),
		charts:   newLRU[*loaded](cmp.Or(o.MemoryBytes, 64<<20)),
	}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	return r, nil
}

// Close lets go of the folder.
func (r *Repository) Close() error { return r.store.close() }

// Resolve implements Source.
func (r *Repository) Resolve(ctx context.Context, obj *unstructured.Unstructured, secrets Secrets) (*Chart, error) {
	q, err := r.query(ctx, obj, secrets)
	if err != nil {
		return nil, refused(err, defaultInterval, firstRetry)
	}
	known := r.known(q)
	if known != nil && (q.exact || r.clock.Since(known.AsOf) < q.interval) {
		if c, err := r.load(known); err == nil {
			return r.answer(q, known, c, nil), nil
		}
	}
	found, err := r.lookUp(ctx, q)
	if err == nil {
		c, loadErr := r.load(found)
		if loadErr == nil {
			return r.answer(q, found, c, r.settle(q, found.stale)), nil
		}
		err = loadErr
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if known != nil {
		if c, loadErr := r.load(known); loadErr == nil {
			return r.answer(q, known, c, r.settle(q, err)), nil
		}
	}
	return nil, r.settle(q, err)
}

// answer is what is known, for one resource.
func (r *Repository) answer(q *query, f *find, c *loaded, stale error) *Chart {
	out := &Chart{
		Chart: c.chart, Digest: c.digest, Stale: stale,
		Origin: Origin{Version: f.Version, Archive: f.Archive, SignedBy: f.SignedBy, Time: f.Time},
	}
	now := r.clock.Now()
	switch {
	case stale != nil:
		out.Recheck = r.nextTry(q)
	case !q.exact:
		out.Recheck = max(f.AsOf.Add(q.interval).Sub(now), time.Second)
	}
	return out
}

// known returns what the query was answered with last.
func (r *Repository) known(q *query) *find {
	if f, ok := r.finds.get(q.key); ok {
		return f
	}
	f := &find{}
	if !r.store.record(q.key, f) {
		return nil
	}
	r.finds.put(q.key, f, 1)
	return f
}

// load returns the chart of a find, from memory or from the folder.
func (r *Repository) load(f *find) (*loaded, error) {
	if c, ok := r.charts.get(f.Archive); ok {
		return c, nil
	}
	v, err, _ := r.flights.Do("load "+f.Archive, func() (any, error) {
		if c, ok := r.charts.get(f.Archive); ok {
			return c, nil
		}
		data, ok := r.store.readBlob(f.Archive)
		if !ok {
			return nil, passing("the cached chart is gone")
		}
		return r.unpack(f.Archive, data)
	})
	if err != nil {
		return nil, err
	}
	return v.(*loaded), nil //nolint:errcheck // the function above returns nothing else
}

// unpack loads a chart, and keeps it in memory.
func (r *Repository) unpack(archive string, data []byte) (*loaded, error) {
	r.unpacks <- struct{}{}
	defer func() { <-r.unpacks }()
	c, size, err := loadArchive(data, r.limits.UnpackedBytes)
	if err != nil {
		return nil, err
	}
	out := &loaded{chart: c, digest: r.digest(c)}
	r.charts.put(archive, out, size)
	return out, nil
}

// lookUp asks the repository, together with all others that ask for the same.
// It returns sooner than the repository where that takes too long.
func (r *Repository) lookUp(ctx context.Context, q *query) (*find, error) {
	if err := r.failures.recent(q.key, r.clock.Now()); err != nil {
		return nil, err
	}
	done := r.flights.DoChan("find "+q.key, func() (any, error) {
		// Whoever asked first may give up; the others go on.
		work, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*r.limits.Timeout)
		defer cancel()
		found, err := r.find(work, q)
		r.slow.drop(q.key)
		if err != nil {
			e := asError(err)
			r.failures.add(q.key, e, r.clock.Now())
			return nil, e
		}
		r.failures.clear(q.key)
		r.finds.put(q.key, found, 1)
		r.store.putRecord(q.key, found)
		return found, nil
	})
	wait := r.wait
	if _, ok := r.slow.get(q.key); ok {
		wait = min(wait, 10*time.Millisecond)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case result := <-done:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*find), nil //nolint:errcheck // the function above returns nothing else
	case <-timer.C:
		r.slow.put(q.key, struct{}{}, 1)
		e := passing("%s: still waiting for an answer", place(q.url))
		e.RetryAfter = slowRetry
		return nil, e
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// find chooses a version and fetches it, where it was not fetched before.
func (r *Repository) find(ctx context.Context, q *query) (*find, error) {
	if q.oci && q.exact {
		return r.obtain(ctx, q, candidate{version: q.version}, r.clock.Now())
	}
	maxAge := q.interval
	if q.exact {
		maxAge = forever
	}
	list, stale := r.listing(ctx, q, maxAge)
	if list == nil {
		return nil, stale
	}
	found, err := r.pick(ctx, q, list)
	outdated := errors.Is(err, errCorrupt) || is(err, v1alpha1.ReasonChartNotFound, v1alpha1.ReasonVersionNotFound, v1alpha1.ReasonDigestMismatch)
	if outdated && r.clock.Since(list.AsOf) >= missAge || errors.Is(err, errCorrupt) {
		// The list may be older than what is asked for.
		if errors.Is(err, errCorrupt) {
			r.listings.drop(q.listKey)
			r.store.dropBlob(list.Blob)
		}
		if list, stale = r.listing(ctx, q, missAge); stale != nil || list == nil {
			return nil, cmp.Or(stale, err)
		}
		found, err = r.pick(ctx, q, list)
	}
	if err != nil && stale != nil {
		return nil, stale
	}
	if errors.Is(err, errCorrupt) {
		return nil, passing("chart repository %s: its index did not stay in the cache, which is too small for it", place(q.url))
	}
	if err != nil {
		return nil, err
	}
	found.stale = stale
	return found, nil
}

// forever is an age that no list of versions reaches.
const forever = time.Duration(1<<63 - 1)

// pick chooses a version of the list and fetches it.
func (r *Repository) pick(ctx context.Context, q *query, list *listing) (*find, error) {
	all, err := r.versions(q, list)
	if err != nil {
		return nil, err
	}
	c, err := choose(q, all)
	if err != nil {
		return nil, err
	}
	return r.obtain(ctx, q, c, list.AsOf)
}

// obtained is the record of an archive that was fetched.
type obtained struct {
	Archive  string    `json:"archive"`
	SignedBy string    `json:"signedBy,omitempty"`
	Time     time.Time `json:"time"`
}

// obtain returns the find for a candidate. An archive that was fetched before
// for the same candidate with the same credentials is not fetched again.
func (r *Repository) obtain(ctx context.Context, q *query, c candidate, asOf time.Time) (*find, error) {
	key := fingerprint(r.hashKey, []byte("archive"), []byte(q.listKey), []byte(q.name), []byte(c.version), []byte(c.url), []byte(c.digest), q.keyring)
	v, err, _ := r.flights.Do("obtain "+key, func() (any, error) {
		var have obtained
		if r.store.record(key, &have) {
			if _, err := r.load(&find{Archive: have.Archive}); err == nil {
				return have, nil
			}
		}
		got, err := r.acquire(ctx, q, c)
		if err != nil {
			return nil, err
		}
		if got.Archive == have.Archive {
			got.Time = have.Time
		}
		r.store.putRecord(key, got)
		return got, nil
	})
	if err != nil {
		return nil, err
	}
	got := v.(obtained) //nolint:errcheck // the function above returns nothing else
	return &find{AsOf: asOf, Version: c.version, Archive: got.Archive, SignedBy: got.SignedBy, Time: got.Time}, nil
}

// acquire fetches a candidate, and keeps it if it is the chart that was asked for.
func (r *Repository) acquire(ctx context.Context, q *query, c candidate) (obtained, error) {
	a, err := r.fetch(ctx, q, c)
	if err != nil {
		return obtained{}, err
	}
	out := obtained{Time: r.clock.Now()}
	what := fmt.Sprintf("chart %s %s of %s", q.name, c.version, place(q.url))
	if q.verify {
		if out.SignedBy, err = r.verify(q, q.name+"-"+c.version+".tgz", a); err != nil {
			return obtained{}, err
		}
	}
	sum := sha256.Sum256(a.data)
	out.Archive = hex.EncodeToString(sum[:])
	l, err := r.unpack(out.Archive, a.data)
	if err != nil {
		return obtained{}, asError(err).within("%s", what)
	}
	if md := l.chart.Metadata; md.Version != c.version || (!q.oci && md.Name != q.name) {
		return obtained{}, absent(v1alpha1.ReasonChartInvalid, "%s: the archive there holds chart %s %s", what, plain(md.Name), plain(md.Version))
	}
	if _, err := r.store.putBlob(a.data); err != nil {
		return obtained{}, err
	}
	return out, nil
}
