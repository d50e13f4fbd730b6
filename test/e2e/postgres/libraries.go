// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// checkLibraries finds out whether every program of the image finds its shared
// libraries in it, so that one that is missing shows here and not in a pod.
func checkLibraries(root string, release Release) error {
	var dirs []string
	for _, pattern := range []string{"lib/*-linux-gnu*", "usr/lib/*-linux-gnu*", "lib64"} {
		more, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		dirs = append(dirs, more...)
	}
	var queue []string
	for _, pattern := range []string{release.programs() + "/*", "bin/*", "usr/bin/*", "usr/lib/postgresql/*/lib/*.so"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		queue = append(queue, files...)
	}
	var errs []error
	seen := map[string]bool{}
	for len(queue) > 0 {
		file := queue[0]
		queue = queue[1:]
		for _, library := range needed(file) {
			if seen[library] {
				continue
			}
			seen[library] = true
			found := slices.IndexFunc(dirs, func(dir string) bool {
				_, err := os.Stat(filepath.Join(dir, library))
				return err == nil
			})
			if found < 0 {
				errs = append(errs, fmt.Errorf("%s needs %s, which no package of the image has", filepath.Base(file), library))
				continue
			}
			queue = append(queue, filepath.Join(dirs[found], library))
		}
	}
	return errors.Join(errs...)
}

// needed lists the shared libraries that a program asks for; none of a file that is no program.
func needed(file string) []string {
	program, err := elf.Open(file)
	if err != nil {
		return nil
	}
	defer program.Close()
	libraries, err := program.ImportedLibraries()
	if err != nil {
		return nil
	}
	return libraries
}
