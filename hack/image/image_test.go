// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/x509"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/chartgate/chartgate/hack/ociimage"
)

// sources lays out what the image is made of, as a checkout has it: with the
// permissions that the umask leaves, and touched at any time.
func sources(t *testing.T) (dir, manager string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range map[string]string{
		"watches.yaml":                       "[]\n",
		"helm-charts/shop/Chart.yaml":        "name: shop\n",
		"helm-charts/shop/templates/cm.yaml": "kind: ConfigMap\n",
		"manager":                            "ELF",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		touched := time.Unix(rand.Int64N(1e9), 0)
		if err := os.Chtimes(file, touched, touched); err != nil {
			t.Fatal(err)
		}
	}
	return dir, filepath.Join(dir, "manager")
}

// staged lays out the image's files from them.
func staged(t *testing.T) string {
	t.Helper()
	source, manager := sources(t)
	root := filepath.Join(t.TempDir(), "root")
	if err := stage(source, filepath.Join(source, "watches.yaml"), manager, root); err != nil {
		t.Fatal(err)
	}
	return root
}

func build(t *testing.T) v1.Image {
	t.Helper()
	spec, err := operatorImage(staged(t), "amd64", "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	image, err := ociimage.Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestTheDigestDependsOnContentsAlone(t *testing.T) {
	first, err := ociimage.Digest(build(t))
	if err != nil {
		t.Fatal(err)
	}
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	second, err := ociimage.Digest(build(t))
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Errorf("two builds of the same sources: %s and %s", first, second)
	}
}

func TestTheImageHoldsWhatTheOperatorNeedsAndNoShell(t *testing.T) {
	files, err := contents(build(t))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]fs.FileMode{
		"/manager":                            0o755,
		"/watches.yaml":                       0o644,
		"/helm-charts/shop/Chart.yaml":        0o644,
		"/helm-charts/shop/templates/cm.yaml": 0o644,
		"/" + certificatesFile:                0o644,
		"/etc":                                0o755, "/etc/ssl": 0o755, "/etc/ssl/certs": 0o755,
		"/helm-charts": 0o755, "/helm-charts/shop": 0o755, "/helm-charts/shop/templates": 0o755,
	}
	for name, mode := range modes {
		file, there := files[name]
		if !there || file.mode != mode || file.uid != 0 || file.gid != 0 {
			t.Errorf("%s: %v, %s", name, there, file)
		}
		delete(files, name)
	}
	for name := range files {
		t.Errorf("%s should not be there", name)
	}
}

func TestCertificateAuthoritiesAreOnesThatGoReads(t *testing.T) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(certificates()) {
		t.Fatal("none")
	}
	if n := strings.Count(string(certificates()), "BEGIN CERTIFICATE"); n < 100 {
		t.Errorf("only %d", n)
	}
}

// A container engine and make image must not drift apart.
func TestTheDockerfileSaysTheSame(t *testing.T) {
	content, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	dockerfile := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(string(content), "")
	spec, err := operatorImage(staged(t), "amd64", "${VERSION}")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`ENTRYPOINT ["` + spec.Entrypoint[0] + `"]`,
		"USER " + spec.User,
		"WORKDIR " + spec.WorkingDir,
		"ENV " + strings.Join(spec.Env, " "),
	}
	for key, value := range spec.Labels {
		want = append(want, key+`="`+value+`"`)
	}
	for _, line := range want {
		if !strings.Contains(dockerfile, line) {
			t.Errorf("the Dockerfile has no %s", line)
		}
	}
}

func TestCompareNamesEveryDifference(t *testing.T) {
	ours := build(t)
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := ociimage.Save(archive, "chartgate:v1", ours); err != nil {
		t.Fatal(err)
	}
	if err := compare(ours, archive); err != nil {
		t.Errorf("the same image: %v", err)
	}
	layer, err := ociimage.Build(ociimage.Spec{Layers: []ociimage.Layer{{
		"/bin/sh": {Content: []byte("#!"), Mode: 0o755}, "/watches.yaml": {Content: []byte("other")},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	layers, err := layer.Layers()
	if err != nil {
		t.Fatal(err)
	}
	changed, err := mutate.AppendLayers(ours, layers...)
	if err != nil {
		t.Fatal(err)
	}
	config, err := changed.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.Config.User = "0"
	if changed, err = mutate.ConfigFile(changed, config); err != nil {
		t.Fatal(err)
	}
	if err := ociimage.Save(archive, "chartgate:v1", changed); err != nil {
		t.Fatal(err)
	}
	err = compare(ours, archive)
	for _, want := range []string{"/bin/sh is there", "/watches.yaml is", "user is 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}
