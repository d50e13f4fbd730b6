// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// Version of the operator. The build sets it.
var Version = "dev"

// Main runs the command line and returns the exit code. An error is told in
// one line on stderr.
func Main(ctx context.Context, args []string, stderr io.Writer) int {
	return Run(ctx, nil, args, stderr)
}

// Run is Main for a given API server: config goes before what the command line,
// the environment and the pod say. Nil leaves it to them.
func Run(ctx context.Context, config *rest.Config, args []string, stderr io.Writer) int {
	cmd := command(config) //nolint:contextcheck // cobra hands ctx to the command
	cmd.SetArgs(args)
	cmd.SetErr(stderr)
	if err := cmd.ExecuteContext(ctx); err != nil {
		_, _ = fmt.Fprintln(stderr, "manager: "+describe(err))
		return 1
	}
	return 0
}

// describe puts an error on one line, but for the problems of a file, which
// are a line each.
func describe(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return strings.Join(lines, "\n")
}

func command(restConfig *rest.Config) *cobra.Command {
	o := &options{}
	logging := &zap.Options{}
	cmd := &cobra.Command{
		Use:           "manager",
		Short:         "Release Helm charts for custom resources, gated.",
		Version:       Version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if restConfig == nil { // a caller that brings its own config has its own logger
				ctrl.SetLogger(zap.New(zap.UseFlagOptions(logging)))
			}
			return run(cmd.Context(), o, restConfig)
		},
	}
	o.addFlags(cmd.PersistentFlags())
	goFlags := flag.NewFlagSet("manager", flag.ContinueOnError)
	logging.BindFlags(goFlags)
	if restConfig == nil {
		config.RegisterFlags(goFlags) // --kubeconfig, which controller-runtime keeps for the whole process
	}
	cmd.PersistentFlags().AddGoFlagSet(goFlags)
	// operator-sdk projects start their operator as "helm-operator run".
	cmd.AddCommand(&cobra.Command{
		Use: "run", Short: "Same as without a command.", Hidden: true,
		Args: cobra.NoArgs, RunE: cmd.RunE,
	})
	return cmd
}
