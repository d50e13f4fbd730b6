// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chartgate/chartgate/internal/chartgen"
)

// crdFlags are the flags of chartgen crd.
type crdFlags struct {
	chart    string
	output   string
	defaults string
	strict   bool
	check    bool
	opts     chartgen.Options
}

func newCRD() *cobra.Command {
	f := &crdFlags{}
	cmd := &cobra.Command{
		Use:   "crd --chart FOLDER --kind KIND",
		Short: "Make a CRD from a chart's values.schema.json",
		Long: `Make a CustomResourceDefinition from a chart's values.schema.json: its spec
holds the chart's values, with descriptions and validation, and the settings that
all Chartgate kinds share.

What a CRD can't express is kept open and told on stderr. docs/authoring.md says
which those are.`,
		Example: `  chartgen crd --chart helm-charts/guestbook --kind Guestbook --short-name gb`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.chart, "chart", "", "folder or archive of the chart (required)")
	flags.StringVar(&f.opts.Kind, "kind", "", "kind of the resource, in CamelCase (required)")
	flags.StringVar(&f.opts.Plural, "plural", "", "plural name of the resource (default: guessed from the kind)")
	flags.StringSliceVar(&f.opts.ShortNames, "short-name", nil, "short name of the resource; may be repeated")
	flags.StringVar(&f.opts.Group, "group", "apps.chartgate.dev", "API group")
	flags.StringVar(&f.opts.Version, "version", "v1alpha1", "API version")
	flags.StringVar(&f.opts.ValuesPath, "values-path", chartgen.SpecPath, "where the values live: spec, or a field below it such as spec.values")
	flags.StringVar(&f.defaults, "defaults", string(chartgen.DefaultsMissing),
		"which defaults of the schema the API server fills in: missing (those that values.yaml lacks), all, or none")
	flags.StringVar(&f.output, "output", "config/crd/bases", "folder or .yaml file to write to, or - for standard output")
	flags.BoolVar(&f.strict, "strict", false, "fail if the schema holds anything that a CRD can't express")
	flags.BoolVar(&f.check, "check", false, "write nothing, and fail if the file is not up to date")
	return cmd
}

func (f *crdFlags) run(cmd *cobra.Command) error {
	chrt, err := chartgen.Load(f.chart)
	if err != nil {
		return err
	}
	f.opts.ChartPath = filepath.ToSlash(filepath.Clean(f.chart))
	f.opts.Defaults = chartgen.DefaultsMode(f.defaults)
	crd, warnings, err := chartgen.CRD(chrt, f.opts)
	level := "warning"
	if f.strict {
		level = "error"
	}
	for _, w := range warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", level, w)
	}
	switch {
	case err != nil:
		return err
	case f.strict && len(warnings) > 0:
		return fmt.Errorf("%d warnings, and --strict allows none: mend the schema, or leave out --strict", len(warnings))
	}
	data, err := chartgen.Marshal(crd)
	if err != nil {
		return err
	}
	return f.put(cmd, data, chartgen.FileName(crd))
}

// put writes the CRD, or compares it with the file.
func (f *crdFlags) put(cmd *cobra.Command, data []byte, name string) error {
	if f.output == "-" && !f.check {
		_, err := cmd.OutOrStdout().Write(data)
		return err
	}
	path := f.output
	if ext := strings.ToLower(filepath.Ext(path)); ext != ".yaml" && ext != ".yml" {
		path = filepath.Join(path, name)
	}
	return writeFile(path, data, f.check, "chartgen crd", f.chart)
}
