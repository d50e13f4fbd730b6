// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Release is the PostgreSQL that Debian has.
type Release struct {
	// Major version, such as 15.
	Major string
	// Version, such as 15.18.
	Version string
}

var (
	serverPackage = regexp.MustCompile(`Depends: postgresql-([0-9]+)`)
	candidate     = regexp.MustCompile(`Candidate: ([0-9]+\.[0-9]+)`)
)

// currentRelease asks which PostgreSQL this machine's Debian has.
func currentRelease(ctx context.Context) (Release, error) {
	for _, program := range []string{"apt-get", "apt-cache", "dpkg"} {
		if _, err := exec.LookPath(program); err != nil {
			return Release{}, errNoDebian
		}
	}
	out, err := command(ctx, "", "apt-cache", "depends", "postgresql")
	if err != nil {
		return Release{}, err
	}
	found := serverPackage.FindSubmatch(out)
	if found == nil {
		return Release{}, fmt.Errorf("apt-cache knows no package postgresql: run apt-get update, or see whether this is Debian")
	}
	release := Release{Major: string(found[1])}
	if out, err = command(ctx, "", "apt-cache", "policy", "postgresql-"+release.Major); err != nil {
		return Release{}, err
	}
	if found = candidate.FindSubmatch(out); found == nil {
		return Release{}, fmt.Errorf("apt-cache has no candidate of postgresql-%s: run apt-get update", release.Major)
	}
	release.Version = string(found[1])
	return release, nil
}

// closure lists the packages of the image: server, clients, what scripts need,
// and the libraries that all of these depend on. What they ask for besides, such
// as Perl for Debian's own tools, is left out.
func closure(ctx context.Context, release Release) ([]string, error) {
	next := []string{"postgresql-" + release.Major, "postgresql-client-" + release.Major, "bash", "coreutils", "sed", "libc-bin", "tzdata", "base-files"}
	seen := map[string]bool{}
	for len(next) > 0 {
		for _, name := range next {
			seen[name] = true
		}
		arguments := append([]string{
			"depends", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances",
		}, next...)
		out, err := command(ctx, "", "apt-cache", arguments...)
		if err != nil {
			return nil, err
		}
		next = nil
		for line := range strings.Lines(string(out)) {
			_, name, ok := strings.Cut(strings.TrimSpace(line), "epends: ")
			if ok && isLibrary(name) && !seen[name] && !slices.Contains(next, name) {
				next = append(next, name)
			}
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

func isLibrary(name string) bool {
	return (strings.HasPrefix(name, "lib") || strings.HasPrefix(name, "zlib")) && !strings.HasPrefix(name, "libllvm") && !strings.HasPrefix(name, "libperl") &&
		!strings.Contains(name, "-perl") && !strings.HasPrefix(name, "libpam-")
}

// source is a package's file: where it is, and its checksum.
var source = regexp.MustCompile(`(?m)^'[^']+' (\S+) [0-9]+ SHA256:([0-9a-f]{64})$`)

// download fetches the packages' files, as far as the cache does not have them.
func download(ctx context.Context, release Release, packages []string) ([]string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "chartgate", "postgres-"+release.Major)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	empty, err := os.MkdirTemp(dir, ".list-") // apt-get does not name what is in the folder already
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(empty) }()
	out, err := command(ctx, empty, "apt-get", append([]string{"download", "--print-uris"}, packages...)...)
	if err != nil {
		return nil, err
	}
	sources := source.FindAllSubmatch(out, -1)
	if len(sources) != len(packages) {
		return nil, fmt.Errorf("apt-get has files of %d packages, out of %d", len(sources), len(packages))
	}
	var files, missing []string
	for _, s := range sources {
		file := filepath.Join(dir, string(s[1]))
		files = append(files, file)
		if verify(file, string(s[2])) != nil {
			name, _, _ := strings.Cut(string(s[1]), "_")
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		if _, err := command(ctx, dir, "apt-get", append([]string{"-o", "APT::Sandbox::User=root", "download"}, missing...)...); err != nil {
			return nil, err
		}
	}
	for i, s := range sources {
		if err := verify(files[i], string(s[2])); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// verify checks that a file is there and is what Debian says it is.
func verify(file, want string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
		return fmt.Errorf("%s has not the checksum that Debian gives: delete it and try again", file)
	}
	return nil
}

func unpack(ctx context.Context, file, root string) error {
	_, err := command(ctx, "", "dpkg", "-x", file, root)
	return err
}

// command runs a program and returns what it prints. An error quotes its last words.
func command(ctx context.Context, dir, program string, arguments ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", program, arguments[0], err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}
