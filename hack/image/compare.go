// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// entry is one file of an image.
type entry struct {
	kind     byte
	mode     fs.FileMode
	uid, gid int
	size     int64
	digest   string // of the content
	link     string
}

func (e entry) String() string {
	return fmt.Sprintf("type %c, mode %04o, owner %d:%d, %d bytes, sha256 %.12s %s", e.kind, e.mode, e.uid, e.gid, e.size, e.digest, e.link)
}

// contents lists an image's files by their path.
func contents(image v1.Image) (map[string]entry, error) {
	stream := mutate.Extract(image)
	defer stream.Close()
	files := map[string]entry{}
	for reader := tar.NewReader(stream); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the image's files: %w", err)
		}
		name := path.Clean("/" + header.Name)
		if name == "/" {
			continue // some builders list the root itself
		}
		hash := sha256.New()
		if _, err := io.Copy(hash, reader); err != nil { //nolint:gosec // an image that we have just built
			return nil, fmt.Errorf("read %s of the image: %w", name, err)
		}
		files[name] = entry{
			kind: header.Typeflag, mode: header.FileInfo().Mode().Perm(), uid: header.Uid, gid: header.Gid,
			size: header.Size, digest: hex.EncodeToString(hash.Sum(nil)), link: header.Linkname,
		}
	}
}

// compare tells how an image of a container engine, as a docker archive, is
// not the same as ours.
func compare(ours v1.Image, archive string) error {
	theirs, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		return fmt.Errorf("read %s: %w", archive, err)
	}
	want, err := contents(ours)
	if err != nil {
		return err
	}
	got, err := contents(theirs)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	var differences []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch other, known := got[name]; {
		case !known:
			differences = append(differences, name+" is missing")
		case other != want[name]:
			differences = append(differences, fmt.Sprintf("%s is %s, and should be %s", name, other, want[name]))
		}
		delete(got, name)
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		differences = append(differences, name+" is there, and should not be")
	}
	settings, err := compareSettings(ours, theirs)
	if err != nil {
		return err
	}
	if differences = append(differences, settings...); len(differences) > 0 {
		return fmt.Errorf("%s is not the same image:\n  %s", archive, strings.Join(differences, "\n  "))
	}
	return nil
}

func compareSettings(ours, theirs v1.Image) ([]string, error) {
	a, err := ours.ConfigFile()
	if err != nil {
		return nil, err
	}
	b, err := theirs.ConfigFile()
	if err != nil {
		return nil, err
	}
	labels := maps.Clone(b.Config.Labels)
	delete(labels, "io.buildah.version") // it leaves its mark
	// The working directory has / for its default. A PATH without a shell is of no use, but some builders set one.
	env := slices.DeleteFunc(slices.Clone(b.Config.Env), func(e string) bool { return strings.HasPrefix(e, "PATH=") })
	var differences []string
	for _, setting := range []struct {
		name      string
		want, got any
	}{
		{"os", a.OS, b.OS},
		{"architecture", a.Architecture, b.Architecture},
		{"user", a.Config.User, b.Config.User},
		{"entrypoint", a.Config.Entrypoint, b.Config.Entrypoint},
		{"command", len(a.Config.Cmd), len(b.Config.Cmd)},
		{"environment", a.Config.Env, env},
		{"working directory", a.Config.WorkingDir, path.Clean("/" + b.Config.WorkingDir)},
		{"labels", a.Config.Labels, labels},
	} {
		if !reflect.DeepEqual(setting.want, setting.got) {
			differences = append(differences, fmt.Sprintf("%s is %v, and should be %v", setting.name, setting.got, setting.want))
		}
	}
	return differences, nil
}
