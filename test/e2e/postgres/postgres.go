// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package postgres makes a PostgreSQL image from Debian's packages, for tests on
// machines that reach Debian's archive and no image registry. It follows the
// conventions of the official image as far as charts rely on them: its entry
// point and the POSTGRES_ variables, user 999, the programs in PATH.
package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/chartgate/chartgate/hack/ociimage"
)

// Image is a PostgreSQL image in a registry.
type Image struct {
	// Reference of the image, by digest.
	Reference string
	// Major version of PostgreSQL, such as 15.
	Major string
	// Version of PostgreSQL, such as 15.18.
	Version string
}

// uid is the user and group postgres of the official image.
const uid = 999

//go:embed docker-entrypoint.sh
var entrypoint []byte

// Push makes the image and pushes it to a registry, as in 127.0.0.1:5000. It
// tells progress, if not nil, what it is about to do. Packages that were
// downloaded once are kept in the user's cache.
func Push(ctx context.Context, registry string, progress func(string)) (Image, error) {
	if progress == nil {
		progress = func(string) {}
	}
	root, err := os.MkdirTemp("", "chartgate-postgres-")
	if err != nil {
		return Image{}, err
	}
	defer func() { _ = os.RemoveAll(root) }()
	release, err := Unpack(ctx, root, progress)
	if err != nil {
		return Image{}, err
	}
	image, err := build(root, release)
	if err != nil {
		return Image{}, err
	}
	progress("pushing the PostgreSQL image to " + registry)
	reference, err := ociimage.Push(ctx, registry+"/postgres:"+release.Version, image)
	if err != nil {
		return Image{}, err
	}
	return Image{Reference: reference, Major: release.Major, Version: release.Version}, nil
}

// Unpack puts all files of the image into an empty folder. A chroot into it runs
// PostgreSQL without a container.
func Unpack(ctx context.Context, root string, progress func(string)) (Release, error) {
	release, err := currentRelease(ctx)
	if err != nil {
		return Release{}, err
	}
	progress("downloading PostgreSQL " + release.Version + " from Debian's archive")
	packages, err := closure(ctx, release)
	if err != nil {
		return Release{}, err
	}
	files, err := download(ctx, release, packages)
	if err != nil {
		return Release{}, err
	}
	for _, file := range files {
		if err := unpack(ctx, file, root); err != nil {
			return Release{}, err
		}
	}
	if err := trim(root); err != nil {
		return Release{}, err
	}
	if err := complete(root, release); err != nil {
		return Release{}, err
	}
	return release, checkLibraries(root, release)
}

// trim removes what no server needs: just-in-time compilation, which takes all
// of LLVM, documentation and translations.
func trim(root string) error {
	for _, pattern := range []string{
		"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/bug",
		"usr/lib/postgresql/*/lib/bitcode", "usr/lib/postgresql/*/lib/llvmjit*", "var/lib/dpkg", "usr/share/perl*", "lib/systemd",
	} {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		for _, match := range matches {
			if err := os.RemoveAll(match); err != nil {
				return err
			}
		}
	}
	return nil
}

// complete adds what packages make only when they are installed.
func complete(root string, release Release) error {
	for _, dir := range []string{"etc", "run/postgresql", "var/lib/postgresql/data", "docker-entrypoint-initdb.d", "tmp", "usr/local/bin", "proc", "dev"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{
		"etc/passwd":        fmt.Sprintf("root:x:0:0:root:/root:/bin/bash\npostgres:x:%d:%d::/var/lib/postgresql:/bin/bash\n", uid, uid),
		"etc/group":         fmt.Sprintf("root:x:0:\npostgres:x:%d:\n", uid),
		"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(root, "usr/local/bin/docker-entrypoint.sh"), entrypoint, 0o755); err != nil {
		return err
	}
	for link, target := range map[string]string{
		"bin/sh":  "bash",
		"var/run": "/run",
		// The server expects its sample where Debian's tools look for it.
		"usr/share/postgresql/postgresql.conf.sample": release.Major + "/postgresql.conf.sample",
	} {
		path := filepath.Join(root, link)
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(target, path); err != nil {
			return err
		}
	}
	return nil
}

// Path is the PATH of the image.
func (r Release) Path() string {
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + "/" + r.programs()
}

func (r Release) programs() string { return "usr/lib/postgresql/" + r.Major + "/bin" }

func build(root string, release Release) (v1.Image, error) {
	layer := ociimage.Layer{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || file == root {
			return err
		}
		target := "/" + filepath.ToSlash(strings.TrimPrefix(file, root+string(filepath.Separator)))
		info, err := entry.Info()
		if err != nil {
			return err
		}
		switch mode := info.Mode(); {
		case mode.IsDir():
			layer[target] = directory(target)
		case mode&fs.ModeSymlink != 0:
			link, err := os.Readlink(file)
			if err != nil {
				return err
			}
			layer[target] = ociimage.File{Content: []byte(link), Mode: fs.ModeSymlink}
		case mode.IsRegular():
			layer[target] = ociimage.File{Source: file, Mode: mode.Perm()}
		default:
			return fmt.Errorf("%s is neither file, folder nor link", target)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("files of the PostgreSQL image: %w", err)
	}
	return ociimage.Build(ociimage.Spec{
		Entrypoint: []string{"docker-entrypoint.sh"},
		Command:    []string{"postgres"},
		Env: []string{
			"PATH=" + release.Path(), "LANG=C.UTF-8", "PG_MAJOR=" + release.Major,
			"PG_VERSION=" + release.Version, "PGDATA=/var/lib/postgresql/data",
		},
		Layers: []ociimage.Layer{layer},
	})
}

// directory says whose a folder is, and who may write to it.
func directory(target string) ociimage.File {
	file := ociimage.File{Mode: fs.ModeDir | 0o755}
	switch target {
	case "/var/lib/postgresql", "/var/lib/postgresql/data", "/run/postgresql":
		file.UID, file.GID, file.Mode = uid, uid, fs.ModeDir|fs.ModeSticky|0o777
	case "/tmp":
		file.Mode = fs.ModeDir | fs.ModeSticky | 0o777
	}
	return file
}

// errNoDebian says where the image can be made.
var errNoDebian = errors.New("the PostgreSQL image is made from Debian's packages, so it takes a machine with apt-get, apt-cache and dpkg")
