// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command cluster runs a real Kubernetes control plane with simulated nodes, or
// with one real node, in the background, for trying things out and for the Makefile.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var dir string
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "Run a real Kubernetes control plane with simulated nodes, or with a real one",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			absolute, err := filepath.Abs(dir)
			if err != nil {
				return fmt.Errorf("find the folder %s: %w", dir, err)
			}
			dir = absolute
			return nil
		},
	}
	root.PersistentFlags().StringVar(&dir, "dir", ".cluster", "folder of the control plane's data, logs and kubeconfig")
	root.AddCommand(newUpCommand(&dir), newServeCommand(&dir), newDownCommand(&dir), newStatusCommand(&dir), newBuildCommand())
	return root
}
