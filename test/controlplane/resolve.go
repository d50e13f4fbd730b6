// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Environment variables that decide where programs come from.
const (
	// AssetsVariable names a folder with etcd and kube-apiserver, as
	// controller-runtime's envtest uses it. Other programs are taken from it
	// too if it has them.
	AssetsVariable = "KUBEBUILDER_ASSETS"

	// DownloadVariable set to 1 allows fetching released programs instead of
	// building them.
	DownloadVariable = "DOWNLOAD"
)

// Resolve returns the paths of programs, and makes those that are missing.
//
// A program comes from the folder that KUBEBUILDER_ASSETS names, else from
// [CacheDir], where it is built with the go command, or fetched from its
// project's releases if DOWNLOAD is 1. The first build of kube-apiserver takes
// minutes; progress says how far it is.
func Resolve(ctx context.Context, progress io.Writer, programs ...Program) (map[Program]string, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	assets := os.Getenv(AssetsVariable)
	paths := make(map[Program]string, len(programs))
	var missing []Program
	for _, program := range programs {
		path, err := cachedPath(cache, program)
		if err != nil {
			return nil, err
		}
		if assets != "" && !program.own() {
			path := filepath.Join(assets, string(program))
			err := executable(path)
			if err == nil {
				paths[program] = path
				continue
			}
			if program == Etcd || program == KubeAPIServer {
				return nil, fmt.Errorf("%s must name a folder with etcd and kube-apiserver: %w; unset it to build them", AssetsVariable, err)
			}
		}
		paths[program] = path
		if executable(path) != nil && !slices.Contains(missing, program) {
			missing = append(missing, program)
		}
	}
	if len(missing) == 0 {
		return paths, nil
	}
	if err := makePrograms(ctx, progress, cache, missing, paths); err != nil {
		return nil, err
	}
	return paths, nil
}

// makePrograms fills the cache while it holds the cache's lock, so that two
// processes don't build the same program twice, nor two at once.
func makePrograms(ctx context.Context, progress io.Writer, cache string, programs []Program, paths map[Program]string) error {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return fmt.Errorf("create the cache folder of the control plane's programs: %w", err)
	}
	report := newReporter(progress)
	unlock, err := lockFile(ctx, filepath.Join(cache, "lock"), func() {
		report.line("waiting for another process that builds the control plane's programs in %s", cache)
	})
	if err != nil {
		return err
	}
	defer unlock()

	programs = slices.DeleteFunc(programs, func(program Program) bool { return executable(paths[program]) == nil })
	for i, program := range programs {
		counted := fmt.Sprintf("%s (%d of %d)", program, i+1, len(programs))
		if err := os.MkdirAll(filepath.Dir(paths[program]), 0o755); err != nil {
			return fmt.Errorf("create the cache folder of %s: %w", program, err)
		}
		if err := makeProgram(ctx, report, counted, program, paths[program]); err != nil {
			return err
		}
	}
	return nil
}

// makeProgram fetches a program if that is wanted and possible, or builds it.
func makeProgram(ctx context.Context, report reporter, counted string, program Program, target string) error {
	if os.Getenv(DownloadVariable) == "1" && !program.own() {
		done := report.start("fetching " + counted)
		err := releases.fetch(ctx, program, target)
		done(err)
		switch {
		case errors.Is(err, errNoRelease):
			report.line("%v: building it", err)
		case err != nil:
			return fmt.Errorf("fetch %s: %w; unset %s to build it from its Go module", program, err, DownloadVariable)
		default:
			return nil
		}
	}
	done := report.start("building " + counted)
	err := build(ctx, program, target)
	done(err)
	if err != nil {
		return fmt.Errorf("build %s: %w", program, err)
	}
	return nil
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s is not an executable file", path)
	}
	return nil
}
