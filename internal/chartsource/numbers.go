// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/chartgate/chartgate/internal/translate"
)

// exactNumbers reads the default values of the chart and its subcharts again,
// such that integers stay integers: Helm's loader makes every number a float.
func exactNumbers(c *chart.Chart) error {
	for _, f := range c.Raw {
		if f.Name != chartutil.ValuesfileName {
			continue
		}
		values, err := translate.ParseValues(f.Data)
		if err != nil {
			return fmt.Errorf("%s of chart %s: %w", f.Name, c.Name(), err)
		}
		c.Values = values
	}
	for _, d := range c.Dependencies() {
		if err := exactNumbers(d); err != nil {
			return err
		}
	}
	return nil
}
