// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/chartgate/chartgate/test/controlplane"
)

func newBuildCommand() *cobra.Command {
	var printed string
	var all bool
	command := &cobra.Command{
		Use:   "build [PROGRAM]...",
		Short: "Build programs, by default those of a control plane with simulated nodes, and print the cache folder",
		Long: fmt.Sprintf(`Build programs, by default those of a control plane with simulated nodes, and print the cache folder.
Programs: %v

Programs that exist are kept. Those in the folder %s are not built.
With %s=1, releases are fetched instead where their projects publish them.`,
			controlplane.AllPrograms(), controlplane.AssetsVariable, controlplane.DownloadVariable),
		Example: "  cluster build kube-apiserver etcd\n  cluster build --print kubectl",
		RunE: func(command *cobra.Command, arguments []string) error {
			programs := make([]controlplane.Program, 0, len(arguments))
			for _, argument := range arguments {
				programs = append(programs, controlplane.Program(argument))
			}
			switch {
			case printed != "" && len(programs) > 0:
				return fmt.Errorf("--print names the program to build: leave out %v", programs)
			case printed != "":
				programs = []controlplane.Program{controlplane.Program(printed)}
			case all && len(programs) > 0:
				return fmt.Errorf("--all means all programs: leave out %v", programs)
			case all:
				programs = controlplane.AllPrograms()
			case len(programs) == 0:
				programs = controlplane.Programs()
			}
			paths, err := controlplane.Resolve(command.Context(), os.Stderr, programs...)
			if err != nil {
				return err
			}
			if printed != "" {
				fmt.Fprintln(command.OutOrStdout(), paths[programs[0]])
				return nil
			}
			folder, err := controlplane.CacheDir()
			if err != nil {
				return err
			}
			fmt.Fprintln(command.OutOrStdout(), folder)
			return nil
		},
	}
	command.Flags().StringVar(&printed, "print", "", "build this program only and print its path")
	command.Flags().BoolVar(&all, "all", false, "build all programs, those of a real node, of OLM and of bundles as well")
	command.MarkFlagsMutuallyExclusive("print", "all")
	return command
}
