// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"helm.sh/helm/v3/pkg/chart"
	helmrelease "helm.sh/helm/v3/pkg/release"
)

const (
	// maxContent bounds a release's JSON, in bytes. A small Secret can unpack to any size.
	maxContent = 64 << 20
	// maxValues bounds how many values, list items and map entries a release's
	// JSON has: decoded, each takes much more than the byte or two it is written in.
	maxValues = 1 << 20
)

var (
	errNotBase64     = errors.New("its content is not base64")
	errNotGzip       = errors.New("its content cannot be decompressed")
	errTooLarge      = fmt.Errorf("its content is larger than %d MiB", maxContent>>20)
	errTooManyValues = fmt.Errorf("its content has more than %d values", maxValues)
	errNotRelease    = errors.New("its content is not a Helm release in JSON")
	errNoInfo        = errors.New("its content says nothing of the release's status")
)

// gzipMagic starts compressed content.
var gzipMagic = []byte{0x1f, 0x8b, 0x08}

// gzipWriters are reused, since each takes about a MiB.
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// encode returns a release's content, compressed: base64 of it is what Helm stores.
// The stored chart is slim: rollback needs the manifest alone, people ask for
// metadata and default values.
func encode(rel *helmrelease.Release) ([]byte, error) {
	if rel.Info == nil {
		return nil, fmt.Errorf("release %s revision %d has no status", rel.Name, rel.Version)
	}
	out := *rel
	info := *rel.Info
	info.Resources = nil // what is live is not part of a release, and cannot be decoded
	out.Info = &info
	if rel.Chart != nil {
		out.Chart = &chart.Chart{Metadata: rel.Chart.Metadata, Lock: rel.Chart.Lock, Values: rel.Chart.Values}
	}
	content, err := json.Marshal(&out)
	if err != nil {
		return nil, fmt.Errorf("release %s revision %d has values that JSON cannot express", rel.Name, rel.Version)
	}
	if err := checkContent(content); err != nil {
		return nil, fmt.Errorf("release %s revision %d: %w", rel.Name, rel.Version, err)
	}
	var buf bytes.Buffer
	w, ok := gzipWriters.Get().(*gzip.Writer)
	if !ok {
		w = gzip.NewWriter(io.Discard)
	}
	defer gzipWriters.Put(w)
	w.Reset(&buf)
	if _, err := w.Write(content); err != nil {
		return nil, fmt.Errorf("release %s revision %d: %w", rel.Name, rel.Version, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("release %s revision %d: %w", rel.Name, rel.Version, err)
	}
	return bytes.Clone(buf.Bytes()), nil
}

// toBase64 and fromBase64 convert content to and from what Helm stores in a Secret.
func toBase64(payload []byte) []byte {
	return base64.StdEncoding.AppendEncode(nil, payload)
}

func fromBase64(data []byte) ([]byte, error) {
	payload, err := base64.StdEncoding.AppendDecode(nil, data)
	if err != nil {
		return nil, errNotBase64
	}
	return payload, nil
}

// decode returns the release in a Secret's content, and about how many bytes of
// memory it takes. It survives any content, and its errors quote none of it.
func decode(payload []byte) (*helmrelease.Release, int, error) {
	content, err := unpack(payload, maxContent)
	if err != nil {
		return nil, 0, err
	}
	if err := checkContent(content); err != nil {
		return nil, 0, err
	}
	var rel helmrelease.Release
	if err := json.Unmarshal(content, &rel); err != nil {
		return nil, 0, errNotRelease
	}
	if rel.Info == nil {
		return nil, 0, errNoInfo
	}
	fillGaps(&rel)
	return &rel, len(content) + len(content)/2 + 2048, nil
}

// unpack decompresses content of at most limit bytes. Very old releases are not compressed.
func unpack(payload []byte, limit int64) ([]byte, error) {
	if !bytes.HasPrefix(payload, gzipMagic) {
		return payload, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(payload))
	if err != nil {
		return nil, errNotGzip
	}
	content, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, errNotGzip
	case int64(len(content)) > limit:
		return nil, errTooLarge
	}
	return content, nil
}

// checkContent refuses JSON that takes too much memory to decode.
func checkContent(content []byte) error {
	if len(content) > maxContent {
		return errTooLarge
	}
	values, inString := 0, false
	for i := 0; i < len(content); i++ {
		switch c := content[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == '[' || c == '{'):
			values++
		}
	}
	if values > maxValues {
		return errTooManyValues
	}
	return nil
}

// fillGaps removes the nulls that JSON can put where Helm expects none.
func fillGaps(rel *helmrelease.Release) {
	rel.Hooks = slices.DeleteFunc(rel.Hooks, func(h *helmrelease.Hook) bool { return h == nil })
	if rel.Chart == nil {
		rel.Chart = &chart.Chart{}
	}
	c := rel.Chart
	noFile := func(f *chart.File) bool { return f == nil }
	c.Templates = slices.DeleteFunc(c.Templates, noFile)
	c.Files = slices.DeleteFunc(c.Files, noFile)
	noDependency := func(d *chart.Dependency) bool { return d == nil }
	if c.Lock != nil {
		c.Lock.Dependencies = slices.DeleteFunc(c.Lock.Dependencies, noDependency)
	}
	if c.Metadata == nil {
		c.Metadata = &chart.Metadata{}
	}
	c.Metadata.Dependencies = slices.DeleteFunc(c.Metadata.Dependencies, noDependency)
	c.Metadata.Maintainers = slices.DeleteFunc(c.Metadata.Maintainers, func(m *chart.Maintainer) bool { return m == nil })
}
