// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func newDownCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the control plane that up started, and remove its folder",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return down(command.Context(), command.OutOrStdout(), *dir)
		},
	}
}

// down stops the recorded processes, as far as they are still the same, and
// removes the folder.
func down(ctx context.Context, out io.Writer, dir string) error {
	if err := checkDir(dir); err != nil {
		return err
	}
	current, err := readState(dir)
	if err != nil {
		return err
	}
	if current != nil {
		if err := current.stop(ctx); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, logName)); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(out, "No control plane is up in %s.\n", dir)
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the control plane's folder: %w", err)
	}
	fmt.Fprintln(out, "The control plane is stopped.")
	return nil
}

// stop asks the serving process to stop its servers. If that process doesn't
// leave, it is killed; then the servers' guards kill them.
func (s *state) stop(ctx context.Context) error {
	s.Serve.signal(syscall.SIGTERM)
	if !s.Serve.gone(ctx, 30*time.Second) {
		s.Serve.signal(syscall.SIGKILL)
	}
	for _, process := range append(s.Servers, s.Serve) {
		if process.gone(ctx, 5*time.Second) {
			continue
		}
		process.signal(syscall.SIGKILL)
		if !process.gone(ctx, 5*time.Second) {
			return fmt.Errorf("%s (pid %d) does not end: stop it by hand, then run down again", process.Name, process.PID)
		}
	}
	return nil
}
