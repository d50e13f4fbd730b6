// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of chartgen.
package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Main runs chartgen and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	cmd := New()
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	if err := cmd.Execute(); err != nil {
		fmt.Fprintf(stderr, "chartgen: %v\n", err)
		return 1
	}
	return 0
}

// New is the chartgen command with all its parts.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "chartgen",
		Short:             "Make the parts of an operator that depend on a Helm chart",
		Args:              cobra.NoArgs,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
	}
	cmd.AddCommand(newCRD(), newRBAC())
	return cmd
}
