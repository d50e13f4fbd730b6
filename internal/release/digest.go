// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"sort"

	"helm.sh/helm/v3/pkg/chart"
	helmrelease "helm.sh/helm/v3/pkg/release"
)

// LabelDigestLength is how many hex digits of a change's digest its release
// Secret carries as a label: a label value holds 63 characters.
const LabelDigestLength = 40

// ChartDigest identifies a chart by its files: names and bytes, subcharts
// included, in an order of their own. Packaging does not matter.
func ChartDigest(c *chart.Chart) string {
	files := make([]*chart.File, len(c.Raw))
	copy(files, c.Raw)
	sort.Slice(files, func(i, j int) bool { return files[i].Name < files[j].Name })
	h := sha256.New()
	for _, f := range files {
		writeField(h, []byte(f.Name))
		writeField(h, f.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// changeDigest covers all that decides what a release's objects are. The JSON
// of a map has sorted keys, so equal values give equal bytes.
func changeDigest(chartDigest, name, namespace string, values map[string]any) (string, error) {
	data, err := json.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("values of release %s: %w", name, err)
	}
	h := sha256.New()
	for _, field := range [][]byte{[]byte("chartgate/v1"), []byte(chartDigest), []byte(name), []byte(namespace), data} {
		writeField(h, field)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// PayloadDigest identifies what a stored release would apply: manifest and hooks.
func PayloadDigest(rel *helmrelease.Release) string {
	h := sha256.New()
	writeField(h, []byte(rel.Manifest))
	for _, hook := range rel.Hooks {
		writeField(h, []byte(hook.Path))
		writeField(h, []byte(hook.Manifest))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// writeField writes a field with its length, so that no two lists of fields hash alike.
func writeField(h hash.Hash, data []byte) {
	_, _ = fmt.Fprintf(h, "%d:", len(data))
	_, _ = h.Write(data)
}

// labelDigest is the form of a digest that fits a label.
func labelDigest(digest string) string {
	if len(digest) > LabelDigestLength {
		return digest[:LabelDigestLength]
	}
	return digest
}
