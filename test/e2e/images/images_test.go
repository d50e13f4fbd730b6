// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package images_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/chartgate/chartgate/hack/ociimage"
	"github.com/chartgate/chartgate/test/e2e/images"
)

// shelf is a registry that keeps images in memory.
type shelf map[string]v1.Image

func (s shelf) Push(_ context.Context, name string, spec ociimage.Spec) (string, error) {
	image, err := ociimage.Build(spec)
	if err != nil {
		return "", err
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	repository, _, _ := strings.Cut("localhost:5000/"+name, ":v")
	s[repository+":v1"] = image
	return repository + "@" + digest.String(), nil
}

func TestImagesNeedNothing(t *testing.T) {
	pushed := shelf{}
	references, err := images.Push(t.Context(), pushed)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{images.Hello, images.Frontend, images.Redis} {
		image, ok := pushed[references[name]]
		if !ok {
			t.Fatalf("%s is %q, which was not pushed", name, references[name])
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if user := config.Config.User; user == "" || user == "0" {
			t.Errorf("%s runs as user %q", name, user)
		}
		entries := content(t, image)
		if entries["bin/hello"] != tar.TypeReg || entries["bin/redis-server"] != tar.TypeSymlink || len(entries) != 3 {
			t.Errorf("%s has %v", name, entries)
		}
	}
}

// content returns an image's entries and their types.
func content(t *testing.T, image v1.Image) map[string]byte {
	t.Helper()
	files := mutate.Extract(image)
	defer files.Close()
	entries := map[string]byte{}
	for reader := tar.NewReader(files); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		entries[header.Name] = header.Typeflag
	}
}

func TestSplit(t *testing.T) {
	for reference, want := range map[string][2]string{
		"localhost:5000/e2e/hello:v1": {"localhost:5000/e2e/hello", "v1"},
		"hello:v1":                    {"hello", "v1"},
	} {
		repository, tag, err := images.Split(reference)
		if got := [2]string{repository, tag}; got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", reference, got, err, want)
		}
	}
	for _, reference := range []string{"localhost:5000/e2e/hello", "localhost:5000/e2e/hello@sha256:0123"} {
		if _, _, err := images.Split(reference); err == nil {
			t.Errorf("%s is taken", reference)
		}
	}
}
