// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// source holds everything that decides what is built.
//
//go:embed tools/*.mod tools/*.sum tools/*.txt guard/*.go node/*.go pause/*.go
var source embed.FS

// CacheDir returns the folder that keeps all built programs. Each lies in a
// folder of its own whose name is a digest of the program's module files, its
// build flags, the Go version and the platform, so it is built anew when, and
// only when, any of these changes.
func CacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder (set HOME or XDG_CACHE_HOME): %w", err)
	}
	return filepath.Join(base, "chartgate", "controlplane"), nil
}

// cachedPath returns where a program is or will be.
func cachedPath(cache string, program Program) (string, error) {
	recipe, err := program.recipe()
	if err != nil {
		return "", err
	}
	arguments, err := recipe.arguments()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q\n", append([]string{runtime.Version(), runtime.GOOS, runtime.GOARCH}, arguments...))
	files, err := recipe.files()
	if err != nil {
		return "", err
	}
	for _, file := range files {
		content, err := source.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("digest what %s is built from: %w", program, err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", file, len(content), content)
	}
	folder := fmt.Sprintf("%s-%x", program, sum.Sum(nil)[:8])
	return filepath.Join(cache, folder, string(program)), nil
}

// files names the embedded files that a program is built from: the module's, with
// a main package of our own where the recipe has one, or the source of a program of our own.
func (r recipe) files() ([]string, error) {
	if !r.own() {
		files := []string{moduleFile, strings.TrimSuffix(moduleFile, ".mod") + ".sum"}
		if r.main != "" {
			files = append(files, "tools/"+r.main)
		}
		return files, nil
	}
	files, err := fs.Glob(source, string(r.program)+"/*.go")
	if err != nil {
		return nil, fmt.Errorf("list the source of %s: %w", r.program, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("the source of %s is not embedded", r.program)
	}
	return files, nil
}
