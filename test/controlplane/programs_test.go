// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAssetsFolderComesFirst(t *testing.T) {
	assets := t.TempDir()
	for _, program := range []Program{Etcd, KubeAPIServer} {
		if err := os.WriteFile(filepath.Join(assets, string(program)), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(AssetsVariable, assets)
	paths, err := Resolve(t.Context(), nil, Etcd, KubeAPIServer)
	if err != nil {
		t.Fatal(err)
	}
	for program, path := range paths {
		if path != filepath.Join(assets, string(program)) {
			t.Errorf("%s is taken from %s", program, path)
		}
	}

	t.Setenv(AssetsVariable, t.TempDir())
	_, err = Resolve(t.Context(), nil, Etcd)
	if err == nil || !strings.Contains(err.Error(), AssetsVariable) {
		t.Errorf("an empty folder: got %v, want an error that names the variable", err)
	}
}

func TestUnknownProgramIsAnError(t *testing.T) {
	_, err := Resolve(t.Context(), nil, "dockerd")
	if err == nil || !strings.Contains(err.Error(), "kube-scheduler") {
		t.Errorf("got %v, want an error that lists the programs", err)
	}
}

func TestProgramsDependOnTheirOwnSources(t *testing.T) {
	cache := t.TempDir()
	seen := map[string]Program{}
	for _, program := range append(AllPrograms(), Guard, Node, Pause) {
		path, err := cachedPath(cache, program)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(path) != string(program) {
			t.Errorf("%s is kept as %s", program, path)
		}
		if other, taken := seen[filepath.Dir(path)]; taken {
			t.Errorf("%s and %s share the folder %s", program, other, filepath.Dir(path))
		}
		seen[filepath.Dir(path)] = program
		recipe, err := program.recipe()
		if err != nil {
			t.Fatal(err)
		}
		files, err := recipe.files()
		if err != nil {
			t.Fatal(err)
		}
		prefix := "tools/"
		if program.own() {
			prefix = string(program) + "/"
		}
		for _, file := range files {
			if !strings.HasPrefix(file, prefix) {
				t.Errorf("%s depends on %s", program, file)
			}
		}
	}
}

func TestOptionsNameTheirPrograms(t *testing.T) {
	basic := []Program{Etcd, KubeAPIServer}
	controllers := append(slices.Clone(basic), KubeControllerManager, KubeScheduler)
	for name, test := range map[string]struct {
		options Options
		want    []Program
	}{
		"nothing asked":           {Options{}, basic},
		"controllers":             {Options{Controllers: true}, controllers},
		"nodes imply controllers": {Options{Nodes: 1}, append(slices.Clone(controllers), Kwok)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.options.Programs(); !slices.Equal(got, append(test.want, Guard)) {
				t.Errorf("got %v, want %v and guard", got, test.want)
			}
		})
	}
}

func TestBuildReportsTheGoCommandsError(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOMODCACHE", t.TempDir())
	err := build(testContext(t, time.Minute), Kwok, filepath.Join(t.TempDir(), "kwok"))
	if err == nil || !strings.Contains(err.Error(), "GOPROXY=off") {
		t.Errorf("got %v, want the go command's message", err)
	}
}

func TestOneProcessAtATimeHoldsTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path, func() { t.Error("a free lock is busy") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lockFile(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("a second holder got %v, want the context's error", err)
	}
	unlock()
	again, err := lockFile(t.Context(), path, func() {})
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// releaseServer serves files by their paths.
func releaseServer(t *testing.T, files map[string][]byte) releaseSites {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	return releaseSites{kubernetes: server.URL, etcd: server.URL}
}

func etcdArchive(t *testing.T, program []byte) []byte {
	t.Helper()
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	files := tar.NewWriter(zipped)
	for name, content := range map[string][]byte{"etcd-x/README.md": []byte("x"), "etcd-x/etcd": program} {
		err := files.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(content)), Mode: 0o755})
		if _, writeErr := files.Write(content); err != nil || writeErr != nil {
			t.Fatal(err, writeErr)
		}
	}
	if err := errors.Join(files.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

func TestDownloadsAreKeptOnlyIfTheirChecksumFits(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("releases exist for Linux")
	}
	program := []byte("released program")
	sum := func(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }
	kubernetes, err := moduleVersion("k8s.io/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := moduleVersion("go.etcd.io/etcd/server/v3")
	if err != nil {
		t.Fatal(err)
	}
	apiServerURL := fmt.Sprintf("/%s/bin/linux/%s/kube-apiserver", kubernetes, runtime.GOARCH)
	etcdURL := fmt.Sprintf("/%s/etcd-%s-linux-%s.tar.gz", etcd, etcd, runtime.GOARCH)
	archive := etcdArchive(t, program)
	sums := func(content []byte) []byte {
		return fmt.Appendf(nil, "%s  another.tar.gz\n%s  %s\n", sum(nil), sum(content), path.Base(etcdURL))
	}

	for name, test := range map[string]struct {
		program   Program
		files     map[string][]byte
		wantError string
	}{
		"kube-apiserver": {
			KubeAPIServer, map[string][]byte{apiServerURL: program, apiServerURL + ".sha256": []byte(sum(program))}, "",
		},
		"a damaged kube-apiserver": {
			KubeAPIServer, map[string][]byte{apiServerURL: program, apiServerURL + ".sha256": []byte(sum(nil))}, "checksum",
		},
		"a kube-apiserver without checksum": {
			KubeAPIServer, map[string][]byte{apiServerURL: program}, "404",
		},
		"etcd": {
			Etcd, map[string][]byte{etcdURL: archive, path.Dir(etcdURL) + "/SHA256SUMS": sums(archive)}, "",
		},
		"a damaged etcd": {
			Etcd, map[string][]byte{etcdURL: archive, path.Dir(etcdURL) + "/SHA256SUMS": sums(nil)}, "checksum",
		},
		"an etcd that is not listed": {
			Etcd, map[string][]byte{etcdURL: archive, path.Dir(etcdURL) + "/SHA256SUMS": []byte("x  y\n")}, "no published checksum",
		},
		"an etcd that is no archive": {
			Etcd, map[string][]byte{etcdURL: program, path.Dir(etcdURL) + "/SHA256SUMS": sums(program)}, "unpack",
		},
		"kwok has no checked releases": {Kwok, nil, errNoRelease.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			target := filepath.Join(t.TempDir(), string(test.program))
			err := releaseServer(t, test.files).fetch(t.Context(), test.program, target)
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Errorf("got %v, want an error with %q", err, test.wantError)
				}
				if left, _ := os.ReadDir(filepath.Dir(target)); len(left) > 0 {
					t.Errorf("a failed download left %v", left)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := executable(target); err != nil {
				t.Error(err)
			}
			if content, err := os.ReadFile(target); err != nil || !bytes.Equal(content, program) {
				t.Errorf("installed %q, %v", content, err)
			}
		})
	}
}

func TestReporterShowsStepsAndTheirOutcome(t *testing.T) {
	var out bytes.Buffer
	report := newReporter(&out)
	report.start("building a (1 of 2)")(nil)
	report.start("building b (2 of 2)")(errors.New("x"))
	want := "building a (1 of 2) ...\nbuilding a (1 of 2): done after 0 s\nbuilding b (2 of 2) ...\nbuilding b (2 of 2): failed after 0 s\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
