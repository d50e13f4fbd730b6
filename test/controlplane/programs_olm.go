// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// The programs of the Operator Lifecycle Manager (OLM) and of its catalogs.
const (
	OLMOperator        Program = "olm"
	OLMCatalogOperator Program = "catalog"
	OLMPackageServer   Program = "package-server"
	OLMCopyContent     Program = "copy-content"
	OLMCopyBundle      Program = "cpb"
	OPM                Program = "opm"
	GRPCHealthProbe    Program = "grpc_health_probe"
)

// What bundles are made and tested with. It is no part of a cluster, but is built of what opm is.
const (
	OperatorSDK Program = "operator-sdk"
	// ScorecardTest holds operator-sdk's own scorecard tests, which run in Pods.
	ScorecardTest Program = "scorecard-test"
)

const (
	olmModule   = "github.com/operator-framework/operator-lifecycle-manager"
	opmPackage  = "github.com/operator-framework/operator-registry/cmd/opm"
	imageTags   = "containers_image_openpgp,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper"
	healthProbe = "github.com/grpc-ecosystem/grpc-health-probe"
	sdkModule   = "github.com/operator-framework/operator-sdk"
)

// olmRecipes are those of the Operator Lifecycle Manager and its tools.
var olmRecipes = []recipe{
	{program: OLMOperator, pkg: olmModule + "/cmd/olm"},
	{program: OLMCatalogOperator, pkg: olmModule + "/cmd/catalog"},
	{program: OLMPackageServer, pkg: olmModule + "/cmd/package-server"},
	{program: OLMCopyContent, pkg: olmModule + "/cmd/copy-content"},
	{program: OLMCopyBundle, pkg: olmModule + "/util/cpb"},
	{program: OPM, pkg: opmPackage, tags: imageTags},
	{program: GRPCHealthProbe, pkg: healthProbe},
}

// bundleRecipes are those of what bundles are made and tested with.
var bundleRecipes = []recipe{
	{
		program:   OperatorSDK,
		pkg:       sdkModule + "/cmd/operator-sdk",
		tags:      imageTags,
		versionOf: sdkModule,
		stamp: func(version string) string {
			const variable = "-X " + sdkModule + "/internal/version."
			return variable + "GitVersion=" + version + " " + variable + "Version=" + version
		},
	},
	{program: ScorecardTest, pkg: sdkModule + "/images/scorecard-test", tags: imageTags},
}

// OLMPrograms returns the programs of the Operator Lifecycle Manager and of
// its catalogs.
func OLMPrograms() []Program { return programsOf(olmRecipes) }

// A Module is a Go module in the module cache.
type Module struct {
	Version string
	// Dir is the folder with the module's files, which can't be written.
	Dir string
}

// OLMModule returns the module that OLM's programs are built from. It also
// holds OLM's chart. The module is fetched if it isn't in the module cache,
// and fits the checksum that is known for it.
func OLMModule(ctx context.Context) (Module, error) {
	dir, err := os.MkdirTemp("", "chartgate-module-")
	if err != nil {
		return Module{}, fmt.Errorf("create a folder to find OLM's module from: %w", err)
	}
	defer os.RemoveAll(dir)
	recipe, err := OLMOperator.recipe()
	if err != nil {
		return Module{}, err
	}
	if err := recipe.writeModule(dir); err != nil {
		return Module{}, fmt.Errorf("write the module that requires OLM's: %w", err)
	}
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", olmModule)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	command.WaitDelay = 10 * time.Second
	var output, problems bytes.Buffer
	command.Stdout, command.Stderr = &output, &problems
	if err := command.Run(); err != nil {
		return Module{}, fmt.Errorf("go mod download %s: %w\n%s%s", olmModule, err, output.String(), problems.String())
	}
	var module Module
	if err := json.Unmarshal(output.Bytes(), &module); err != nil {
		return Module{}, fmt.Errorf("read what go mod download says of %s: %w", olmModule, err)
	}
	return module, nil
}
