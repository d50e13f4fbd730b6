// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chartgate/chartgate/test/controlplane"
)

// A demo is one run of the demonstration.
type demo struct {
	*terminal
	root string
	keep bool

	dir     string // everything the demo writes
	cluster *cluster
	manager *manager
	charts  *chartServers
	sample  string // name of the sample resource
}

// A step is one thing that the demo shows and checks.
type step struct {
	title string
	run   func(*demo, context.Context) error
}

func steps() []step {
	return []step{
		{"Build the manager, and helm", (*demo).build},
		{"Start a Kubernetes control plane", (*demo).startCluster},
		{"Install the CRDs", (*demo).installCRDs},
		{"Start the manager", (*demo).startManager},
		{"Apply a Guestbook", (*demo).applySample},
		{"Look at it as Helm does", (*demo).lookWithHelm},
		{"Change it: a new revision", (*demo).change},
		{"Delete a Service by hand: it comes back", (*demo).deleteService},
		{"Edit a Deployment by hand: it is put back", (*demo).editDeployment},
		{"Delete the Guestbook: nothing is left", (*demo).deleteSample},
		{"Apply a Guestbook with three gates: it waits", (*demo).applyGated},
		{"Open the first gate: the settings are there", (*demo).openSettings},
		{"Open the second gate: what it depends on is ready", (*demo).openDependency},
		{"Open the third gate: somebody looks at the plan and approves", (*demo).approve},
		{"Delete both Guestbooks", (*demo).deleteGated},
		{"A WebApp: no chart to be seen, and scaled at once", (*demo).applyWebApp},
		{"A Database: a primary, standbys, and data that stay", (*demo).applyDatabase},
		{"A HelmApp: a chart chosen by a team, with the team's rights", (*demo).applyHelmApp},
		{"A Microservice: manifests in the resource itself", (*demo).applyMicroservice},
	}
}

func newDemo(root string, keep bool) *demo {
	t := newTerminal()
	t.dir = root
	return &demo{terminal: t, root: root, keep: keep}
}

// run goes through all steps, and ends what it started unless that is to be kept.
func (d *demo) run(ctx context.Context) (err error) {
	start := time.Now()
	if err := d.makeDir(ctx); err != nil {
		return err
	}
	defer func() {
		if d.keep && ctx.Err() == nil {
			d.explainKept()
			return
		}
		err = errors.Join(err, d.cleanUp())
	}()

	all := steps()
	if d.keep {
		all = append(all, step{"Leave a Guestbook for you to play with", (*demo).applySample})
	}
	for i, s := range all {
		d.title(fmt.Sprintf("%d/%d  %s", i+1, len(all), s.title))
		if err := d.runStep(ctx, s); err != nil {
			if ctx.Err() == nil && d.manager != nil {
				d.say("\nThe end of the manager's log:\n%s", d.manager.tail(40))
			}
			return fmt.Errorf("step %d (%s) did not hold: %w", i+1, s.title, err)
		}
	}
	d.title(fmt.Sprintf("All %d steps held, in %s", len(all), time.Since(start).Round(time.Second)))
	return nil
}

// runStep runs a step, which ends early if the manager does.
func (d *demo) runStep(ctx context.Context, s step) error {
	if d.manager == nil {
		return s.run(d, ctx)
	}
	bound, cancel := d.manager.bound(ctx)
	defer cancel(nil)
	err := s.run(d, bound)
	if err != nil && bound.Err() != nil {
		return context.Cause(bound)
	}
	return err
}

func (d *demo) makeDir(ctx context.Context) error {
	if !d.keep {
		dir, err := os.MkdirTemp("", "chartgate-demo-")
		if err != nil {
			return fmt.Errorf("make the demo's folder: %w", err)
		}
		d.dir = dir
		return nil
	}
	d.dir = keptDir(d.root)
	if pid, running := keptManager(ctx, d.terminal, d.dir); running {
		return fmt.Errorf("a demo is running already (its manager is process %d): stop it with make demo-down", pid)
	}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return fmt.Errorf("make the demo's folder: %w", err)
	}
	return nil
}

// linkTools puts kubectl and helm where the demo's commands find them first.
func (d *demo) linkTools(ctx context.Context) error {
	kubectl, err := d.ask(ctx, "command -v kubectl")
	if kubectl = strings.TrimSpace(kubectl); err != nil {
		programs, err := controlplane.Resolve(ctx, d.out, controlplane.Kubectl)
		if err != nil {
			return err
		}
		kubectl = programs[controlplane.Kubectl]
	}
	bin := filepath.Join(d.dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	for name, path := range map[string]string{"kubectl": kubectl, "helm": filepath.Join(d.root, "bin", "helm")} {
		link := filepath.Join(bin, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(path, link); err != nil {
			return err
		}
	}
	d.env = append(d.env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return nil
}

// useCluster points kubectl, helm and the manager at the cluster, and keeps their caches in the demo's folder.
func (d *demo) useCluster(c *cluster) {
	d.cluster = c
	d.env = append(d.env,
		"KUBECONFIG="+c.kubeconfig,
		"KUBECACHEDIR="+filepath.Join(d.dir, "cache", "kubectl"),
		"HELM_CACHE_HOME="+filepath.Join(d.dir, "cache", "helm"),
		"HELM_CONFIG_HOME="+filepath.Join(d.dir, "config", "helm"),
		"HELM_DATA_HOME="+filepath.Join(d.dir, "data", "helm"),
	)
}

func (d *demo) cleanUp() error {
	var problems []error
	if d.manager != nil {
		d.manager.stop()
	}
	if d.charts != nil {
		problems = append(problems, d.charts.close())
	}
	if d.cluster != nil {
		problems = append(problems, d.cluster.stop())
	}
	problems = append(problems, os.RemoveAll(d.dir))
	return errors.Join(problems...)
}

func (d *demo) explainKept() {
	if d.cluster == nil {
		return
	}
	d.title("It keeps running")
	d.say("Point kubectl and helm at it:\n")
	d.say("  export KUBECONFIG=%s", d.cluster.kubeconfig)
	d.say("  export PATH=%s:$PATH\n", filepath.Join(d.dir, "bin"))
	d.say("Then, for example:\n")
	d.say("  kubectl get chartgate --all-namespaces")
	d.say("  helm list --all-namespaces\n")
	if d.manager != nil {
		d.say("The manager's log is %s.", d.manager.log)
	}
	d.say("Stop it with: make demo-down")
}
