// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// errNoRelease means that a project publishes no checked build of a program
// for this platform.
var errNoRelease = errors.New("no release with a checksum")

// releaseSites are where released programs are published.
type releaseSites struct {
	kubernetes string
	etcd       string
}

var releases = releaseSites{
	kubernetes: "https://dl.k8s.io/release",
	etcd:       "https://github.com/etcd-io/etcd/releases/download",
}

// fetch downloads a released program in the version that would be built, and
// keeps it only if its SHA-256 checksum is the published one.
func (s releaseSites) fetch(ctx context.Context, program Program, target string) error {
	switch program {
	case Etcd:
		return s.fetchEtcd(ctx, target)
	case KubeAPIServer, KubeControllerManager, KubeScheduler, Kubelet, KubeProxy:
		if runtime.GOOS != "linux" {
			return fmt.Errorf("%s for %s: %w", program, runtime.GOOS, errNoRelease)
		}
		return s.fetchKubernetes(ctx, program, target)
	case Kubectl:
		return s.fetchKubernetes(ctx, program, target)
	default:
		return fmt.Errorf("%s: %w", program, errNoRelease)
	}
}

func (s releaseSites) fetchKubernetes(ctx context.Context, program Program, target string) error {
	version, err := moduleVersion("k8s.io/kubernetes")
	if err != nil {
		return err
	}
	url := fmt.Sprintf("%s/%s/bin/%s/%s/%s", s.kubernetes, version, runtime.GOOS, runtime.GOARCH, program)
	checksum, err := get(ctx, url+".sha256")
	if err != nil {
		return err
	}
	content, err := get(ctx, url)
	if err != nil {
		return err
	}
	if err := verify(url, content, string(checksum)); err != nil {
		return err
	}
	return install(target, content)
}

func (s releaseSites) fetchEtcd(ctx context.Context, target string) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("etcd for %s: %w", runtime.GOOS, errNoRelease)
	}
	version, err := moduleVersion("go.etcd.io/etcd/server/v3")
	if err != nil {
		return err
	}
	name := fmt.Sprintf("etcd-%s-%s-%s.tar.gz", version, runtime.GOOS, runtime.GOARCH)
	sums, err := get(ctx, s.etcd+"/"+version+"/SHA256SUMS")
	if err != nil {
		return err
	}
	checksum := ""
	for line := range strings.Lines(string(sums)) {
		if fields := strings.Fields(line); len(fields) == 2 && strings.TrimPrefix(fields[1], "*") == name {
			checksum = fields[0]
		}
	}
	url := s.etcd + "/" + version + "/" + name
	content, err := get(ctx, url)
	if err != nil {
		return err
	}
	if err := verify(url, content, checksum); err != nil {
		return err
	}
	program, err := unpack(content, "etcd")
	if err != nil {
		return fmt.Errorf("unpack %s: %w", url, err)
	}
	return install(target, program)
}

func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("prepare the download: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("download %s: the server answered %s", url, response.Status)
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("download %s: %w", url, err)
	}
	return content, nil
}

func verify(url string, content []byte, checksum string) error {
	want := strings.TrimSpace(checksum)
	if want == "" {
		return fmt.Errorf("%s has no published checksum", url)
	}
	sum := sha256.Sum256(content)
	if got := hex.EncodeToString(sum[:]); got != want {
		return fmt.Errorf("%s has the SHA-256 checksum %s, but %s is published: it is damaged or not genuine", url, got, want)
	}
	return nil
}

// unpack returns the file with the given base name from a gzipped tar archive.
func unpack(archive []byte, base string) ([]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("it holds no file %s", base)
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag == tar.TypeReg && path.Base(header.Name) == base {
			return io.ReadAll(files)
		}
	}
}

// install writes an executable so that it appears complete or not at all.
func install(target string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(target), filepath.Base(target)+"-")
	if err != nil {
		return fmt.Errorf("create the program's file: %w", err)
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(content); err != nil {
		_ = file.Close()
		return fmt.Errorf("write the program: %w", err)
	}
	if err := errors.Join(file.Chmod(0o755), file.Close()); err != nil {
		return fmt.Errorf("finish the program's file: %w", err)
	}
	if err := os.Rename(file.Name(), target); err != nil {
		return fmt.Errorf("move the program into the cache: %w", err)
	}
	return nil
}
