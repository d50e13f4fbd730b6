// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chartgen makes the parts of an operator that depend on a Helm chart.
package main

import (
	"os"

	"github.com/chartgate/chartgate/internal/chartgen/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
}
