// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ociimage makes container images from files, without a container
// engine. The same files, contents and settings make the same image, byte for
// byte: entries are in order, belong to root and carry one fixed time.
package ociimage

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Created is the time of every image and of every file in it.
var Created = time.Unix(0, 0).UTC()

// A Spec says what is in an image and how it runs.
type Spec struct {
	// Architecture is a GOARCH. It defaults to this machine's.
	Architecture string
	// Entrypoint, Command, Env ("NAME=value"), User, WorkingDir and Labels
	// become the image's configuration as they are.
	Entrypoint []string
	Command    []string
	Env        []string
	User       string
	WorkingDir string
	Labels     map[string]string
	// Layers are the image's layers, the lowest first.
	Layers []Layer
}

// A Layer is a set of files by their absolute path in the image.
type Layer map[string]File

// A File is one entry of a layer.
type File struct {
	// Content is the file's content. Source, if set, is a file of this machine
	// to take it from instead.
	Content []byte
	Source  string
	// Mode is the entry's permission, and fs.ModeDir for a folder, or
	// fs.ModeSymlink for a link whose target is Content. Zero stands for 0644,
	// or 0755 for a folder. Folders above an entry are made as needed, with 0755.
	Mode fs.FileMode
	// UID and GID own the entry. They are root's by default.
	UID, GID int
}

// Add puts a file of this machine, or all files of a folder, into the layer.
// Files that may be executed stay so; other permissions are 0644.
func (l Layer) Add(target, source string) error {
	return filepath.WalkDir(source, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return nil
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", file)
		}
		relative, err := filepath.Rel(source, file)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if info.Mode().Perm()&0o111 != 0 {
			mode = 0o755
		}
		l[path.Join(target, filepath.ToSlash(relative))] = File{Source: file, Mode: mode}
		return nil
	})
}

// Build makes the image. It is held in memory.
func Build(spec Spec) (v1.Image, error) {
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	for _, files := range spec.Layers {
		content, err := files.archive()
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(content)), nil
		}, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, fmt.Errorf("make a layer: %w", err)
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, fmt.Errorf("add a layer: %w", err)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", cmp.Or(spec.Architecture, runtime.GOARCH)
	config.Created = v1.Time{Time: Created}
	for i := range config.History {
		config.History[i] = v1.History{Created: v1.Time{Time: Created}, CreatedBy: "ociimage"}
	}
	config.Config = v1.Config{
		Entrypoint: spec.Entrypoint,
		Cmd:        spec.Command,
		Env:        spec.Env,
		User:       spec.User,
		WorkingDir: spec.WorkingDir,
		Labels:     spec.Labels,
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, fmt.Errorf("set the image's configuration: %w", err)
	}
	return image, nil
}

// archive writes the layer as a tar file.
func (l Layer) archive() ([]byte, error) {
	entries := make(Layer, len(l))
	for target, file := range l {
		if !path.IsAbs(target) {
			return nil, fmt.Errorf("%q must be an absolute path in the image", target)
		}
		target = path.Clean(target)
		entries[target] = file
		for dir := path.Dir(target); dir != "/"; dir = path.Dir(dir) {
			if _, known := l[dir]; !known {
				entries[dir] = File{Mode: fs.ModeDir | 0o755}
			}
		}
	}
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, target := range slices.Sorted(maps.Keys(entries)) {
		if err := entries[target].write(writer, strings.TrimPrefix(target, "/")); err != nil {
			return nil, fmt.Errorf("put %s into the image: %w", target, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (f File) write(writer *tar.Writer, target string) error {
	content := f.Content
	if f.Source != "" {
		var err error
		if content, err = os.ReadFile(f.Source); err != nil {
			return err
		}
	}
	header := &tar.Header{
		Name: target, ModTime: Created, Format: tar.FormatPAX,
		Uid: f.UID, Gid: f.GID,
		Mode: int64(cmp.Or(f.Mode.Perm(), 0o644)),
	}
	if f.Mode&fs.ModeSticky != 0 {
		header.Mode |= 0o1000
	}
	switch {
	case f.Mode.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, target+"/"
		if f.Mode.Perm() == 0 {
			header.Mode |= 0o755
		}
		content = nil
	case f.Mode&fs.ModeSymlink != 0:
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, string(content), 0o777
		content = nil
	case f.Mode.Type() != 0:
		return errors.New("only files, folders and links can be in an image")
	default:
		header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
	}
	if err := writer.WriteHeader(header); err != nil {
		return err
	}
	_, err := writer.Write(content)
	return err
}

// Index makes one image index of images of several architectures.
func Index(images ...v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("read an image's configuration: %w", err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture}},
		})
	}
	return index, nil
}

// Digest returns the digest that Push gives: an image's own, or, of more than
// one, that of their index.
func Digest(images ...v1.Image) (string, error) {
	var hash v1.Hash
	var err error
	if len(images) == 1 {
		hash, err = images[0].Digest()
	} else {
		var index v1.ImageIndex
		if index, err = Index(images...); err == nil {
			hash, err = index.Digest()
		}
	}
	if err != nil {
		return "", fmt.Errorf("digest of the image: %w", err)
	}
	return hash.String(), nil
}

// Push writes an image to a registry and returns its reference by digest.
// Images of more than one architecture are written as one index.
// Registries on loopback are spoken to over plain HTTP.
func Push(ctx context.Context, reference string, images ...v1.Image) (string, error) {
	tag, err := name.ParseReference(reference)
	if err != nil {
		return "", fmt.Errorf("image name: %w", err)
	}
	digest, err := Digest(images...)
	if err != nil {
		return "", err
	}
	if len(images) == 1 {
		err = remote.Write(tag, images[0], remote.WithContext(ctx))
	} else {
		var index v1.ImageIndex
		if index, err = Index(images...); err == nil {
			err = remote.WriteIndex(tag, index, remote.WithContext(ctx))
		}
	}
	if err != nil {
		return "", fmt.Errorf("push %s: %w", reference, err)
	}
	return tag.Context().Digest(digest).String(), nil
}

// Publish writes the digest of an image, or of an index of several, to the file
// digest in dir, prints it to out, and pushes the image if that is asked for. By
// the file an image is named by digest before anybody has pushed it.
func Publish(ctx context.Context, out io.Writer, reference, dir string, push bool, images ...v1.Image) error {
	digest, err := Digest(images...)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "digest"), []byte(digest+"\n"), 0o644); err != nil { //nolint:gosec // to be read by anybody
		return err
	}
	if _, err := fmt.Fprintf(out, "%s@%s\n", reference, digest); err != nil || !push {
		return err
	}
	pushed, err := Push(ctx, reference, images...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "pushed", pushed)
	return err
}

// Save writes an image as a tar file that docker load, podman load and
// ctr images import read.
func Save(file, reference string, image v1.Image) error {
	tag, err := name.ParseReference(reference)
	if err != nil {
		return fmt.Errorf("image name: %w", err)
	}
	if err := tarball.WriteToFile(file, tag, image); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
