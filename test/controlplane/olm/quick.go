// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

const (
	loopback = "127.0.0.1"

	// monitoringPort is where OLM's operators serve metrics, on all of the
	// machine's addresses. No flag changes that.
	monitoringPort = "8080"

	// notRun is an image that nothing runs.
	notRun = "registry.invalid/not-run"
)

// A Quick is an OLM whose operators are processes of this machine. Bundles
// come from within catalogs, since there is nothing to unpack an image.
type Quick struct {
	*OLM
	cluster *controlplane.Cluster

	mu     sync.Mutex
	served int
	opms   map[string]*supervise.Process // by CatalogSource
}

// StartQuick starts OLM's operators next to a control plane, which needs
// controllers and simulated nodes, and returns when they work. They end with
// the control plane.
func StartQuick(ctx context.Context, cluster *controlplane.Cluster, progress io.Writer) (*Quick, error) {
	o, err := New(cluster.Config())
	if err != nil {
		return nil, err
	}
	report := newSteps(progress)
	err = report.run("prepare OLM's programs", func() error {
		_, err := controlplane.Resolve(ctx, progress, controlplane.OLMOperator, controlplane.OLMCatalogOperator, controlplane.OPM)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = report.run("apply OLM's chart without its workloads", func() error {
		chart, err := renderChart(ctx, notRun, notRun)
		if err != nil {
			return err
		}
		return o.applyChart(ctx, chart.without("Deployment", "ClusterServiceVersion", "NetworkPolicy"))
	})
	if err != nil {
		return nil, err
	}
	err = report.run("start OLM's operators", func() error { return startOperators(ctx, o, cluster) })
	if err != nil {
		return nil, err
	}
	return &Quick{OLM: o, cluster: cluster, opms: map[string]*supervise.Process{}}, nil
}

// startOperators starts both operators and waits until they work.
func startOperators(ctx context.Context, o *OLM, cluster *controlplane.Cluster) error {
	programs, err := controlplane.Resolve(ctx, os.Stderr, controlplane.OLMOperator, controlplane.OLMCatalogOperator)
	if err != nil {
		return err
	}
	// The first one has no flag for the kubeconfig. env runs it in its place.
	env, err := exec.LookPath("env")
	if err != nil {
		return err
	}
	// Their metrics are for nobody, least of all for other machines: while the
	// port is taken on the loopback interface they can't serve them anywhere,
	// say so and go on without. If it is taken already, that is as good.
	held, taken := net.Listen("tcp", net.JoinHostPort(loopback, monitoringPort))
	if taken == nil {
		defer held.Close()
	}
	const namespace = "--namespace=" + SystemNamespace
	kubeconfig := "KUBECONFIG=" + cluster.KubeconfigPath()
	operator, err := cluster.Supervise("olm-operator", env, kubeconfig, programs[controlplane.OLMOperator], namespace)
	if err != nil {
		return err
	}
	catalogs, err := cluster.Supervise("catalog-operator", env, kubeconfig, programs[controlplane.OLMCatalogOperator],
		namespace, "--opmImage="+notRun, "--util-image="+notRun)
	if err != nil {
		return err
	}
	for _, started := range []*supervise.Process{operator, catalogs} {
		if taken != nil {
			break
		}
		if err := waitLog(ctx, started, "listen tcp :"+monitoringPort); err != nil {
			return err
		}
	}
	return supervise.WaitFor(ctx, "OLM to look at its OperatorGroup", func(ctx context.Context) error {
		group, err := o.get(ctx, operatorGroupKind, GlobalNamespace, "global-operators")
		if err == nil && text(group.Object, "status", "lastUpdated") == "" {
			err = errors.New("it has no status")
		}
		return err
	}, operator, catalogs)
}

// Catalog serves a catalog on the loopback interface, makes it known as a
// CatalogSource and waits until OLM is connected to it. Called again for the
// same CatalogSource it replaces the catalog, as a new catalog image does.
func (q *Quick) Catalog(ctx context.Context, namespace, name string, catalog Catalog) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.served++
	dir := filepath.Join(q.cluster.Dir(), "catalog-"+strconv.Itoa(q.served))
	configs := filepath.Join(dir, "configs")
	if err := catalog.Write(ctx, configs); err != nil {
		return err
	}
	opm, address, err := q.serve(ctx, configs, filepath.Join(dir, "cache"))
	if err != nil {
		return fmt.Errorf("serve the catalog of %s: %w", catalog.Package, err)
	}
	if err := q.CatalogSource(ctx, CatalogSource{Namespace: namespace, Name: name, Address: address}); err != nil {
		return errors.Join(err, opm.Stop())
	}
	key := namespace + "/" + name
	before := q.opms[key]
	q.opms[key] = opm
	if before != nil {
		return before.Stop()
	}
	return nil
}

// serve starts opm on a free port. opm listens on all addresses: no flag
// restricts it to the loopback interface.
func (q *Quick) serve(ctx context.Context, configs, cache string) (*supervise.Process, string, error) {
	programs, err := controlplane.Resolve(ctx, os.Stderr, controlplane.OPM)
	if err != nil {
		return nil, "", err
	}
	const attempts = 5
	var problem error
	for attempt := range attempts {
		port, err := freePort(ctx)
		if err != nil {
			return nil, "", err
		}
		opm, err := q.cluster.Supervise(fmt.Sprintf("opm-%d-%d", q.served, attempt), programs[controlplane.OPM],
			"serve", configs, "--port="+port, "--cache-dir="+cache,
			"--cache-enforce-integrity=false", "--pprof-addr=", "--termination-log="+os.DevNull)
		if err != nil {
			return nil, "", err
		}
		if problem = waitLog(ctx, opm, "serving registry"); problem == nil {
			return opm, net.JoinHostPort(loopback, port), nil
		}
		problem = errors.Join(problem, opm.Stop())
		if !strings.Contains(problem.Error(), "address already in use") {
			break
		}
	}
	return nil, "", problem
}

// waitLog waits until a process has written a text to its log.
func waitLog(ctx context.Context, process *supervise.Process, wanted string) error {
	return supervise.WaitFor(ctx, fmt.Sprintf("%q in its log", wanted), func(context.Context) error {
		content, err := os.ReadFile(process.LogPath)
		if err == nil && !strings.Contains(string(content), wanted) {
			err = errors.New("it is not there")
		}
		return err
	}, process)
}

// freePort returns a TCP port that is free at this moment.
func freePort(ctx context.Context) (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}
