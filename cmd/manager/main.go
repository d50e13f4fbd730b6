// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manager is the Chartgate operator.
package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/chartgate/chartgate/internal/app"
)

func main() {
	os.Exit(app.Main(ctrl.SetupSignalHandler(), os.Args[1:], os.Stderr))
}
