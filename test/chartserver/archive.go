// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chartserver serves charts on loopback for tests: a chart repository
// as 'helm repo index' makes it, and an OCI registry, both with TLS.
package chartserver

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"slices"
	"testing"
)

// Pack returns an archive of the files, each below the folder.
func Pack(t testing.TB, folder string, files map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	zipped := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]
		if err := tw.WriteHeader(&tar.Header{Name: folder + "/" + name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(tw, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(tw.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// PackChart returns the archive of a chart of one ConfigMap, named a.
func PackChart(t testing.TB, name, version string) []byte {
	t.Helper()
	return PackFiles(t, name, version, map[string]string{
		"values.yaml":              "max: 1000000\n",
		"templates/configmap.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
	})
}

// PackFiles returns the archive of a chart of these files; Chart.yaml is made.
func PackFiles(t testing.TB, name, version string, files map[string]string) []byte {
	t.Helper()
	all := maps.Clone(files)
	all["Chart.yaml"] = fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", name, version)
	return Pack(t, name, all)
}

// CASecret is the data of a Secret that holds a server's certificate, and what else is given.
func CASecret(s *httptest.Server, more map[string]string) map[string][]byte {
	data := map[string][]byte{"ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
	for k, v := range more {
		data[k] = []byte(v)
	}
	return data
}

// Quiet keeps the server from logging what clients do to it.
func Quiet(s *httptest.Server) *httptest.Server {
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	return s
}
