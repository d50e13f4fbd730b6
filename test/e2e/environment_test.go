// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/controlplane/olm"
	"github.com/chartgate/chartgate/test/controlplane/realnode"
	"github.com/chartgate/chartgate/test/e2e/images"
	"github.com/chartgate/chartgate/test/e2e/postgres"
)

// environment is a cluster with OLM, a registry and the operator's images in it.
type environment struct {
	cluster      *realnode.Cluster
	olm          *olm.OLM
	client       client.Client
	images       map[string]string // of what charts run, by name
	postgres     postgres.Image
	kubectl      string
	helm         string
	root         string // of the project
	work         string // a folder of the tests' own
	catalogs     catalogs
	catalogImage string
}

func newEnvironment(ctx context.Context) (*environment, error) {
	e := &environment{}
	if err := realnode.Supported(); err != nil {
		return e, err
	}
	var err error
	if e.root, err = filepath.Abs("../.."); err != nil {
		return e, err
	}
	if e.helm = filepath.Join(e.root, "bin", "helm"); !isFile(e.helm) {
		return e, fmt.Errorf("%s is missing: make helm builds it", e.helm)
	}
	if e.work, err = os.MkdirTemp("", "chartgate-e2e-"); err != nil {
		return e, err
	}
	// Builds beside the cluster would have the node starve: they come first.
	programs, err := controlplane.Resolve(ctx, os.Stderr, slices.Concat(realnode.Programs(), controlplane.OLMPrograms(), []controlplane.Program{controlplane.Kubectl})...)
	if err != nil {
		return e, err
	}
	e.kubectl = programs[controlplane.Kubectl]
	versions, err := e.versions()
	if err != nil {
		return e, err
	}
	e.cluster, err = realnode.Start(ctx, realnode.Options{Progress: os.Stderr, MaxLife: time.Hour, AuditLog: true})
	if err != nil {
		return e, err
	}
	group, inGroup := errgroup.WithContext(ctx)
	group.Go(func() error {
		installed, err := olm.Install(inGroup, olm.Options{Config: e.cluster.Config(), Registry: e.cluster, Progress: os.Stderr})
		if err == nil {
			e.olm, e.client = installed, installed.Client()
		}
		return err
	})
	group.Go(func() error {
		var err error
		if e.images, err = images.Push(inGroup, e.cluster); err != nil {
			return err
		}
		if err = e.pushVersions(inGroup, versions); err != nil {
			return err
		}
		e.postgres, err = postgres.Push(inGroup, e.cluster.Registry(), func(what string) { step("%s", what) })
		e.postgres.Reference = realnode.RegistryInside + strings.TrimPrefix(e.postgres.Reference, e.cluster.Registry())
		return err
	})
	if err := group.Wait(); err != nil {
		return e, err
	}
	defer step("wait for the catalog")()
	return e, e.olm.CatalogSource(ctx, olm.CatalogSource{Namespace: olm.SystemNamespace, Name: catalogName, Image: e.catalogImage})
}

// stop ends the cluster and removes what the tests wrote.
func (e *environment) stop() {
	var errs []error
	if e.cluster != nil {
		errs = append(errs, e.cluster.Stop())
	}
	if e.work != "" {
		errs = append(errs, os.RemoveAll(e.work))
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// step prints what is being done, since much of it takes a while.
func step(format string, args ...any) func() {
	text, start := fmt.Sprintf(format, args...), time.Now()
	fmt.Fprintf(os.Stderr, "e2e: %s\n", text)
	return func() {
		fmt.Fprintf(os.Stderr, "e2e: %s: %.1f s\n", strings.TrimSuffix(text, "..."), time.Since(start).Seconds())
	}
}
