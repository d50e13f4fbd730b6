// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chartgate/chartgate/test/chartserver"
)

func blobsIn(t testing.TB, dir string) (n int, size int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(e.Name(), tempPrefix) {
			t.Errorf("%s is left", e.Name())
		}
		if e.Name() != keyFile {
			n, size = n+1, size+info.Size()
		}
	}
	return n, size
}

func TestStoreKeepsToItsSize(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	var digests []string
	for i := range 30 {
		d, err := s.putBlob([]byte(strings.Repeat(fmt.Sprint(i%10), 900+i)))
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, d)
		if _, ok := s.readBlob(digests[0]); !ok { // used all the time, so it stays
			t.Fatal("the blob that is used most is gone")
		}
	}
	if _, size := blobsIn(t, dir); size > 10_000 {
		t.Errorf("the folder holds %d bytes", size)
	}
	if _, ok := s.readBlob(digests[5]); ok {
		t.Error("a blob that was not used stays")
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	// A smaller one next time, and what a killed process left.
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(filepath.Join(dir, blobPrefix+digests[29]), later, later); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, tempPrefix+"1-1"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = openStore(dir, 3_000)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if n, size := blobsIn(t, dir); size > 3_000 || n == 0 {
		t.Errorf("the folder holds %d files of %d bytes", n, size)
	}
	if _, ok := s.readBlob(digests[29]); !ok {
		t.Error("the newest blob is gone")
	}
}

func TestStoreNoticesDamage(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	d, err := s.putBlob([]byte("chart"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, blobPrefix+d)
	if err := os.WriteFile(file, []byte("chars"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.readBlob(d); ok {
		t.Error("a damaged blob is returned")
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Error("it is left")
	}
}

func TestDamageAndEvictionAreMended(t *testing.T) {
	dir := t.TempDir()
	b, charts := newBench(t, func(o *Options) { o.CacheDir = dir }), chartserver.NewRepository(t)
	charts.Add(t, "shop", "1.0.0")
	b.secrets["team/repo"] = chartserver.CASecret(charts.Server, nil)
	app := helmApp(charts.URL, "name", "shop", "version", "1.x")
	first := b.must(t, app)
	charts.Requests.Take()
	spoil := func() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != keyFile {
				if err := os.WriteFile(filepath.Join(dir, e.Name()), []byte("{"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	// In memory it is still there; a new process finds nothing it can use.
	spoil()
	if c := b.must(t, app); c.Chart != first.Chart {
		t.Error("the chart is another one")
	}
	charts.Requests.Expect(t, "in memory")
	b.clock.Step(time.Hour)
	if c := b.must(t, app); c.Stale != nil || c.Digest != first.Digest {
		t.Errorf("stale: %v", c.Stale)
	}
	spoil()
	after := newBench(t, func(o *Options) { o.CacheDir = dir })
	after.secrets = b.secrets
	charts.Requests.Take()
	if c := after.must(t, app); c.Stale != nil || c.Digest != first.Digest {
		t.Errorf("stale: %v", c.Stale)
	}
	charts.Requests.Expect(t, "a new process", "/index.yaml", "/shop-1.0.0.tgz")
	for _, e := range must(os.ReadDir(dir)) {
		_ = os.Remove(filepath.Join(dir, e.Name()))
	}
	after.clock.Step(time.Hour)
	if c := after.must(t, app); c.Stale != nil || c.Digest != first.Digest {
		t.Errorf("stale: %v", c.Stale)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestCacheSmallerThanTheCharts(t *testing.T) {
	dir := t.TempDir()
	b, charts := newBench(t, func(o *Options) { o.CacheDir, o.CacheBytes, o.MemoryBytes = dir, 4<<10, 1 }), chartserver.NewRepository(t)
	var versions []string
	for i := range 20 {
		versions = append(versions, fmt.Sprintf("1.%d.0", i))
	}
	charts.Add(t, "shop", versions...)
	b.secrets["team/repo"] = chartserver.CASecret(charts.Server, nil)
	for range 2 {
		for _, v := range versions {
			if c := b.must(t, helmApp(charts.URL, "name", "shop", "version", v)); c.Metadata.Version != v {
				t.Errorf("found %s for %s", c.Metadata.Version, v)
			}
		}
	}
	if _, size := blobsIn(t, dir); size > 12<<10 { // the index alone is larger than what is allowed
		t.Errorf("the folder holds %d bytes", size)
	}
}
