// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/chartgate/chartgate/internal/chartgen/rbac"
	"github.com/chartgate/chartgate/internal/translate/bundled"
)

// rbacFlags are the flags of chartgen rbac.
type rbacFlags struct {
	watches   string
	chart     string
	output    string
	samples   []string
	crds      []string
	resources []string
	strict    bool
	check     bool
}

func newRBAC() *cobra.Command {
	f := &rbacFlags{}
	cmd := &cobra.Command{
		Use:   "rbac --watches FILE | --chart FOLDER",
		Short: "Work out the RBAC rules that charts and operator take",
		Long: `Work out the RBAC rules that an operator takes for the charts of its
watches.yaml, and write them as two ClusterRoles: role.yaml for what is in
namespaces, cluster_role.yaml for what is in none.

Each chart is rendered without a cluster: with its defaults, with the samples, and
with every boolean switched. What no rendering reached is read from the templates. What
can't be worked out is told on stderr. docs/authoring.md says more.`,
		Example: `  chartgen rbac --watches watches.yaml --sample config/samples --output config/rbac
  chartgen rbac --chart helm-charts/guestbook`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.watches, "watches", "", "watches.yaml of the operator; its charts' paths are relative to the working directory")
	flags.StringVar(&f.chart, "chart", "", "folder or archive of one chart, whose rules are printed")
	flags.StringArrayVar(&f.samples, "sample", nil, "file of custom resources (with --chart: or of values) to render with, or a folder of such; may be repeated")
	flags.StringArrayVar(&f.crds, "crds", nil, "file or folder of CRDs that say how kinds are served; may be repeated")
	flags.StringArrayVar(&f.resources, "resource", nil, "how a kind is served: Kind.group=plural, with ,cluster behind it if it is in no namespace; may be repeated")
	flags.StringVar(&f.output, "output", "-", "folder to write role.yaml and cluster_role.yaml to, or - for standard output")
	flags.BoolVar(&f.strict, "strict", false, "fail if anything can't be worked out")
	flags.BoolVar(&f.check, "check", false, "write nothing, and fail if the files are not up to date")
	return cmd
}

func (f *rbacFlags) run(cmd *cobra.Command) error {
	kinds := rbac.NewKinds()
	for _, at := range f.crds {
		if err := kinds.LoadCRDs(at); err != nil {
			return err
		}
	}
	for _, resource := range f.resources {
		if err := kinds.Add(resource); err != nil {
			return err
		}
	}
	input := rbac.Input{Kinds: kinds, Samples: f.samples, Translators: bundled.Translators()}
	switch {
	case (f.watches == "") == (f.chart == ""):
		return errors.New("name either the operator's watches.yaml (--watches) or one chart (--chart)")
	case f.chart != "":
		rules, messages, err := input.Chart(f.chart)
		if err := f.report(cmd, messages, err); err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(rules)
		return err
	}
	files, messages, err := input.Watches(f.watches)
	if err := f.report(cmd, messages, err); err != nil {
		return err
	}
	for i, file := range files {
		if f.output == "-" && !f.check {
			if i > 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "---")
			}
			if _, err := cmd.OutOrStdout().Write(file.Content); err != nil {
				return err
			}
			continue
		}
		if err := writeFile(filepath.Join(f.output, file.Name), file.Content, f.check, "chartgen rbac", f.watches); err != nil {
			return err
		}
	}
	return nil
}

// report prints the messages, and fails where they are not to be.
func (f *rbacFlags) report(cmd *cobra.Command, messages []rbac.Message, err error) error {
	warnings := 0
	for _, m := range messages {
		level := "warning"
		switch {
		case m.Note:
			level = "note"
		case f.strict:
			level = "error"
		}
		if !m.Note {
			warnings++
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", level, m)
	}
	switch {
	case err != nil:
		return err
	case f.strict && warnings > 0:
		return fmt.Errorf("%d warnings, and --strict allows none: do as they say, or leave out --strict", warnings)
	}
	return nil
}
