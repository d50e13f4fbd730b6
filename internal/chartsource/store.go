// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	blobPrefix   = "blob-"
	recordPrefix = "record-"
	tempPrefix   = "temp-"
	keyFile      = "key"
)

// store keeps what was fetched in a folder, so that a restart does not need the
// repositories: blobs by the sha256 of their content, which is compared when they
// are read back, and small records that say what is in which blob. What was not
// used for longest goes when the folder grows too large.
type store struct {
	root    *os.Root
	blobs   *lru[struct{}] // by name
	records *lru[struct{}] // by name; apart from the blobs, which they would push out

	mu   sync.Mutex // held while files come and go
	temp int
}

// openStore opens the folder, and makes it where it is missing.
func openStore(dir string, limit int64) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("chart cache: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("chart cache: %w", err)
	}
	s := &store{root: root, blobs: newLRU[struct{}](limit), records: newLRU[struct{}](max(limit/16, 64<<10))}
	remove := func(name string) { _ = root.Remove(name) }
	s.blobs.dropped, s.records.dropped = remove, remove
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("chart cache %s: %w", dir, err), root.Close())
	}
	var infos []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil || e.Name() == keyFile:
		case strings.HasPrefix(e.Name(), tempPrefix):
			_ = root.RemoveAll(e.Name())
		case strings.HasPrefix(e.Name(), blobPrefix), strings.HasPrefix(e.Name(), recordPrefix):
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return cmp.Compare(a.ModTime().UnixNano(), b.ModTime().UnixNano()) })
	for _, info := range infos {
		s.list(info.Name()).put(info.Name(), struct{}{}, info.Size())
	}
	return s, nil
}

// key returns random bytes that are the folder's own.
func (s *store) key() ([]byte, error) {
	if key, err := s.root.ReadFile(keyFile); err == nil && len(key) == sha256.Size {
		return key, nil
	}
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	if err := s.root.WriteFile(keyFile, key, 0o600); err != nil {
		return nil, fmt.Errorf("chart cache: %w", err)
	}
	return key, nil
}

// incoming is a blob that is being written.
type incoming struct {
	store *store
	file  *os.File
	name  string
	hash  interface {
		io.Writer
		Sum(b []byte) []byte
	}
	size int64
}

func (s *store) create() (*incoming, error) {
	s.mu.Lock()
	s.temp++
	name := fmt.Sprintf("%s%d-%d", tempPrefix, os.Getpid(), s.temp)
	s.mu.Unlock()
	f, err := s.root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("chart cache: %w", err)
	}
	return &incoming{store: s, file: f, name: name, hash: sha256.New()}, nil
}

// Write implements io.Writer.
func (b *incoming) Write(p []byte) (int, error) {
	_, _ = b.hash.Write(p)
	n, err := b.file.Write(p)
	b.size += int64(n)
	return n, err
}

// commit makes the blob one of the store's, and returns its digest.
func (b *incoming) commit() (string, error) {
	digest := hex.EncodeToString(b.hash.Sum(nil))
	err := b.file.Close()
	if err == nil {
		err = b.store.keep(b.name, blobPrefix+digest, b.size)
	}
	if err != nil {
		_ = b.store.root.Remove(b.name)
		return "", fmt.Errorf("chart cache: %w", err)
	}
	return digest, nil
}

// abandon throws the blob away. It does nothing after commit.
func (b *incoming) abandon() {
	_ = b.file.Close()
	_ = b.store.root.Remove(b.name)
}

// list is the one that keeps the file.
func (s *store) list(name string) *lru[struct{}] {
	if strings.HasPrefix(name, recordPrefix) {
		return s.records
	}
	return s.blobs
}

// keep gives a written file its name, and lets others go for it.
func (s *store) keep(temp, name string, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.root.Rename(temp, name); err != nil {
		return err
	}
	s.list(name).put(name, struct{}{}, size)
	return nil
}

func (s *store) putBlob(data []byte) (string, error) {
	b, err := s.create()
	if err != nil {
		return "", err
	}
	defer b.abandon()
	if _, err := b.Write(data); err != nil {
		return "", fmt.Errorf("chart cache: %w", err)
	}
	return b.commit()
}

// blob opens a blob. What is in it is not compared.
func (s *store) blob(digest string) (*os.File, bool) {
	name := blobPrefix + digest
	if _, ok := s.blobs.get(name); !ok {
		return nil, false
	}
	f, err := s.root.Open(name)
	if err != nil {
		s.blobs.drop(name)
		return nil, false
	}
	now := time.Now()
	_ = s.root.Chtimes(name, now, now)
	return f, true
}

// readBlob returns a blob, if it is there and still what it was.
func (s *store) readBlob(digest string) ([]byte, bool) {
	f, ok := s.blob(digest)
	if !ok {
		return nil, false
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if sum := sha256.Sum256(data); err != nil || hex.EncodeToString(sum[:]) != digest {
		s.dropBlob(digest)
		return nil, false
	}
	return data, true
}

// dropBlob removes a blob that is not what it was.
func (s *store) dropBlob(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs.drop(blobPrefix + digest)
	_ = s.root.Remove(blobPrefix + digest)
}

// putRecord keeps a record. Records only save work, so one that can't be written is no error.
func (s *store) putRecord(key string, record any) {
	data, err := json.Marshal(record)
	if err != nil {
		return
	}
	b, err := s.create()
	if err != nil {
		return
	}
	defer b.abandon()
	if _, err := b.Write(data); err != nil || b.file.Close() != nil {
		return
	}
	_ = s.keep(b.name, recordPrefix+key, b.size)
}

// record reads a record, if there is one.
func (s *store) record(key string, record any) bool {
	name := recordPrefix + key
	if _, ok := s.records.get(name); !ok {
		return false
	}
	data, err := s.root.ReadFile(name)
	return err == nil && json.Unmarshal(data, record) == nil
}

func (s *store) close() error { return s.root.Close() }
