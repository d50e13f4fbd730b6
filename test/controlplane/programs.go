// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// A Program is one executable of a control plane.
type Program string

// The programs that [Resolve] knows.
const (
	Etcd                  Program = "etcd"
	KubeAPIServer         Program = "kube-apiserver"
	KubeControllerManager Program = "kube-controller-manager"
	KubeScheduler         Program = "kube-scheduler"
	Kwok                  Program = "kwok"
	Kubectl               Program = "kubectl"

	guard Program = "guard"
)

// Programs returns all programs that [Resolve] knows, in the order in which
// they are built.
func Programs() []Program {
	return []Program{Etcd, KubeAPIServer, KubeControllerManager, KubeScheduler, Kwok, Kubectl}
}

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

// source holds everything that decides what is built.
//
//go:embed tools/*.mod tools/*.sum guard/*.go
var source embed.FS

// A recipe tells how to build a program.
type recipe struct {
	module  string // base name of its .mod file in tools; empty for guard
	pkg     string // package to build
	ldflags string
}

const stripped = "-s -w"

func (p Program) recipe() (recipe, error) {
	switch p {
	case Etcd:
		return recipe{"kubernetes", "go.etcd.io/etcd/server/v3", stripped}, nil
	case KubeAPIServer, KubeControllerManager, KubeScheduler, Kubectl:
		version, err := moduleVersion("k8s.io/kubernetes")
		if err != nil {
			return recipe{}, err
		}
		major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
		minor, _, _ = strings.Cut(minor, ".")
		const variable = " -X k8s.io/component-base/version."
		ldflags := stripped + variable + "gitVersion=" + version + variable + "gitMajor=" + major + variable + "gitMinor=" + minor
		return recipe{"kubernetes", "k8s.io/kubernetes/cmd/" + string(p), ldflags}, nil
	case Kwok:
		return recipe{"kwok", "sigs.k8s.io/kwok/cmd/kwok", stripped}, nil
	case guard:
		return recipe{"", ".", stripped}, nil
	default:
		return recipe{}, fmt.Errorf("unknown program %q: choose from %v", p, Programs())
	}
}

// moduleVersion reads the version of a module that tools/kubernetes.mod
// requires: no other file names it.
func moduleVersion(module string) (string, error) {
	content, err := source.ReadFile("tools/kubernetes.mod")
	if err != nil {
		return "", fmt.Errorf("read the module file of Kubernetes: %w", err)
	}
	match := regexp.MustCompile(`(?m)^(?:require)?\s+` + regexp.QuoteMeta(module) + `\s+(v\S+)`).FindSubmatch(content)
	if match == nil {
		return "", fmt.Errorf("tools/kubernetes.mod requires no %s", module)
	}
	return string(match[1]), nil
}

// CacheDir returns the folder of built programs. Its name is a digest of the
// module files, the build flags, the Go version and the platform, so programs
// are built anew when any of these changes.
func CacheDir() (string, error) {
	base, err := cacheBase()
	if err != nil {
		return "", err
	}
	facts := []any{runtime.Version(), runtime.GOOS, runtime.GOARCH, buildArguments}
	for _, program := range Programs() {
		recipe, err := program.recipe()
		if err != nil {
			return "", err
		}
		facts = append(facts, program, recipe)
	}
	name, err := digest("tools", facts...)
	if err != nil {
		return "", err
	}
	return filepath.Join(base, name), nil
}

// cacheBase is the parent of all cache folders.
func cacheBase() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder (set HOME or XDG_CACHE_HOME): %w", err)
	}
	return filepath.Join(base, "chartgate", "controlplane"), nil
}

// cachedPath returns where a program is or will be. The guard's name tells its
// source, so that a change of it has nothing else built anew.
func cachedPath(cache string, program Program) (string, error) {
	if program != guard {
		return filepath.Join(cache, string(program)), nil
	}
	suffix, err := digest("guard")
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, string(guard)+"-"+suffix), nil
}

// digest returns a short digest of an embedded folder and further facts.
func digest(folder string, facts ...any) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%v\n", facts)
	err := fs.WalkDir(source, folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := source.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("digest the embedded folder %s: %w", folder, err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8]), nil
}

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
		if _, err := program.recipe(); err != nil {
			return nil, err
		}
		if assets != "" && program != guard {
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
		path, err := cachedPath(cache, program)
		if err != nil {
			return nil, err
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

// makePrograms fills the cache while it holds the lock of the cache folder, so
// that two processes don't build the same program twice.
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
		if err := makeProgram(ctx, report, counted, program, paths[program]); err != nil {
			return err
		}
	}
	return nil
}

// makeProgram fetches a program if that is wanted and possible, or builds it.
func makeProgram(ctx context.Context, report reporter, counted string, program Program, target string) error {
	if os.Getenv(DownloadVariable) == "1" && program != guard {
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
