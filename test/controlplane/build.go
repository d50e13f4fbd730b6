// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// buildArguments come before the program's own -ldflags and -o.
var buildArguments = []string{"build", "-mod=readonly", "-trimpath"}

// build makes a program with the go command, in a folder of its own with the
// embedded module files, so that it works from any working directory.
func build(ctx context.Context, program Program, target string) error {
	recipe, err := program.recipe()
	if err != nil {
		return err
	}
	goCommand, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("the go command is needed: put it on PATH, or set %s: %w", AssetsVariable, err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(target), "build-")
	if err != nil {
		return fmt.Errorf("create a build folder: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := writeModule(dir, recipe.module); err != nil {
		return fmt.Errorf("write the module to build: %w", err)
	}

	output := filepath.Join(dir, "output", string(program))
	arguments := append([]string{}, buildArguments...)
	arguments = append(arguments, "-ldflags", recipe.ldflags, "-o", output, recipe.pkg)
	command := exec.CommandContext(ctx, goCommand, arguments...)
	command.Dir = dir
	command.Env = append(os.Environ(),
		"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	// The go command stops its compilers when it is interrupted.
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGINT) }
	command.WaitDelay = 10 * time.Second
	if text, err := command.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%s %s: %w\n%s", goCommand, strings.Join(arguments, " "), err, tail(string(text), 20))
	}
	if err := os.Rename(output, target); err != nil {
		return fmt.Errorf("move the built program into the cache: %w", err)
	}
	return nil
}

// writeModule writes an embedded module, or the guard's source if module is
// empty, into dir.
func writeModule(dir, module string) error {
	if module != "" {
		for _, suffix := range []string{"mod", "sum"} {
			content, err := source.ReadFile("tools/" + module + "." + suffix)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, "go."+suffix), content, 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	files, err := fs.Glob(source, "guard/*.go")
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("the guard's source is not embedded")
	}
	for _, file := range files {
		content, err := source.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, path.Base(file)), content, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module guard\n\ngo 1.26.0\n"), 0o644)
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}
