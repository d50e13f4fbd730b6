// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

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
	if err := recipe.writeModule(dir); err != nil {
		return fmt.Errorf("write the module to build: %w", err)
	}

	output := filepath.Join(dir, "output", string(program))
	arguments, err := recipe.arguments()
	if err != nil {
		return err
	}
	arguments = slices.Insert(arguments, 1, "-o", output)
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
		return fmt.Errorf("%s %s: %w\n%s", goCommand, strings.Join(arguments, " "), err, supervise.Tail(string(text), 20))
	}
	if err := os.Rename(output, target); err != nil {
		return fmt.Errorf("move the built program into the cache: %w", err)
	}
	return nil
}

// writeModule writes the embedded files that a program is built from into dir.
func (r recipe) writeModule(dir string) error {
	files, err := r.files()
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := source.ReadFile(file)
		if err != nil {
			return err
		}
		name := path.Base(file)
		switch {
		case r.main != "" && name == r.main:
			name = "main.go"
		case !r.own():
			name = "go" + path.Ext(file)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	if !r.own() {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module "+string(r.program)+"\n\ngo 1.26.0\n"), 0o644)
}
