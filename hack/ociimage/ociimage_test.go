// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package ociimage_test

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/chartgate/chartgate/hack/ociimage"
)

func spec(t *testing.T, dir string) ociimage.Spec {
	t.Helper()
	layer := ociimage.Layer{
		"/tmp":       {Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		"/etc/motd":  {Content: []byte("hello\n")},
		"/bin/sh":    {Content: []byte("busybox"), Mode: fs.ModeSymlink},
		"/var/owned": {Mode: fs.ModeDir, UID: 70, GID: 70},
	}
	if err := layer.Add("/app", dir); err != nil {
		t.Fatal(err)
	}
	return ociimage.Spec{
		Architecture: "amd64", Entrypoint: []string{"/app/run"}, User: "65532:65532",
		Labels: map[string]string{"a": "b"}, Layers: []ociimage.Layer{layer},
	}
}

func folder(t *testing.T, touched time.Time) string {
	t.Helper()
	dir := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"run": 0o700, "conf/values.yaml": 0o600} {
		file := filepath.Join(dir, name)
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte(name), mode),
			os.Chtimes(file, touched, touched),
		); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func digest(t *testing.T, image v1.Image, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

func TestSameFilesMakeTheSameImage(t *testing.T) {
	first, err := ociimage.Build(spec(t, folder(t, time.Unix(1e9, 0))))
	one := digest(t, first, err)
	second, err := ociimage.Build(spec(t, folder(t, time.Unix(2e9, 0))))
	if two := digest(t, second, err); two != one {
		t.Errorf("digests differ: %s and %s", one, two)
	}
	changed := folder(t, time.Unix(1e9, 0))
	if err := os.WriteFile(filepath.Join(changed, "run"), []byte("other"), 0o700); err != nil {
		t.Fatal(err)
	}
	third, err := ociimage.Build(spec(t, changed))
	if digest(t, third, err) == one {
		t.Error("another content has the same digest")
	}
}

func TestEntries(t *testing.T) {
	image, err := ociimage.Build(spec(t, folder(t, time.Now())))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"tmp": "dtrwxrwxrwx", "etc": "drwxr-xr-x", "etc/motd": "-rw-r--r--", "bin": "drwxr-xr-x", "bin/sh": "Lrwxrwxrwx",
		"var": "drwxr-xr-x", "var/owned": "drwxr-xr-x", "app": "drwxr-xr-x", "app/run": "-rwxr-xr-x",
		"app/conf": "drwxr-xr-x", "app/conf/values.yaml": "-rw-r--r--",
	}
	content := mutate.Extract(image)
	defer content.Close()
	reader := tar.NewReader(content)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := header.FileInfo().Mode().String(); got != want[header.Name] {
			t.Errorf("%s: mode %s, want %q", header.Name, got, want[header.Name])
		}
		if owned := strings.HasSuffix(header.Name, "owned"); owned != (header.Uid == 70) {
			t.Errorf("%s: owner %d", header.Name, header.Uid)
		}
		delete(want, header.Name)
	}
	if len(want) != 0 {
		t.Errorf("missing in the image: %v", want)
	}
}

func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	image, err := ociimage.Build(spec(t, folder(t, time.Now())))
	built := digest(t, image, err)
	reference, err := ociimage.Push(t.Context(), strings.TrimPrefix(server.URL, "http://")+"/chartgate:v1", image)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(reference, "@"+built) {
		t.Errorf("reference %s, want digest %s", reference, built)
	}
	parsed, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(parsed)
	if digest(t, pulled, err) != built {
		t.Error("what was pulled is not what was pushed")
	}
}

func TestRefusesWhatAnImageCannotHold(t *testing.T) {
	for name, layer := range map[string]ociimage.Layer{
		"relative": {"etc/motd": {}},
		"device":   {"/dev/null": {Mode: fs.ModeDevice}},
		"missing":  {"/a": {Source: filepath.Join(t.TempDir(), "none")}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ociimage.Build(ociimage.Spec{Layers: []ociimage.Layer{layer}}); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestImagesOfSeveralArchitecturesArePushedAsOne(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	var images []v1.Image
	for _, arch := range []string{"amd64", "arm64"} {
		s := spec(t, folder(t, time.Now()))
		s.Architecture = arch
		image, err := ociimage.Build(s)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, image)
	}
	want, err := ociimage.Digest(images...)
	if err != nil {
		t.Fatal(err)
	}
	reference := strings.TrimPrefix(server.URL, "http://") + "/chartgate:v1"
	pushed, err := ociimage.Push(t.Context(), reference, images...)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(pushed, "@"+want) {
		t.Errorf("pushed %s, and the digest was to be %s", pushed, want)
	}
	digest, err := name.NewDigest(pushed)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		if platform := manifest.Manifests[i].Platform; platform == nil || platform.Architecture != arch || platform.OS != "linux" {
			t.Errorf("%d is for %v, want linux/%s", i, platform, arch)
		}
	}
}
