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

	"sigs.k8s.io/yaml"
)

const (
	crds       = "config/crd/bases"
	sampleFile = "config/samples/apps_v1alpha1_guestbook.yaml"
	// patience bounds each wait.
	patience = 2 * time.Minute
)

func (d *demo) build(ctx context.Context) error {
	d.say("The first time, this takes some minutes.")
	if _, err := d.show(ctx, "env -u MAKEFLAGS -u MAKELEVEL make build helm"); err != nil {
		return err
	}
	return d.linkTools(ctx)
}

func (d *demo) startCluster(ctx context.Context) error {
	start := startCluster
	if d.keep {
		start = func(ctx context.Context, t *terminal) (*cluster, error) { return startKeptCluster(ctx, t, d.dir) }
	}
	c, err := start(ctx, d.terminal)
	if err != nil {
		return err
	}
	d.useCluster(c)
	if _, err := d.show(ctx, "kubectl wait --for=condition=Ready node --all --timeout=60s"); err != nil {
		return err
	}
	shown, err := d.show(ctx, "kubectl get nodes")
	if err != nil {
		return err
	}
	if got := strings.Count(shown, " Ready "); got != nodes {
		return fmt.Errorf("%d nodes are Ready, want %d", got, nodes)
	}
	d.good("%d nodes are Ready", nodes)
	return nil
}

func (d *demo) installCRDs(ctx context.Context) error {
	if _, err := d.show(ctx, "kubectl apply --server-side -f "+crds); err != nil {
		return err
	}
	if _, err := d.show(ctx, "kubectl wait --for=condition=Established --timeout=60s -f "+crds); err != nil {
		return err
	}
	// A CRD is served a moment before the API server publishes its schema.
	if _, err := eventually(ctx, "the schema of Guestbook is published", func(ctx context.Context) error {
		_, err := d.ask(ctx, "kubectl explain guestbook.spec")
		return err
	}); err != nil {
		return err
	}
	_, err := d.show(ctx, "kubectl explain guestbook.spec | sed -n 1,20p")
	return err
}

func (d *demo) startManager(ctx context.Context) error {
	charts, err := startChartServers(d.dir)
	if err != nil {
		return err
	}
	d.charts = charts
	m, err := startManager(d.terminal, d.dir, d.keep, charts.flags()...)
	d.manager = m
	if err != nil {
		return err
	}
	ctx, cancel := m.bound(ctx)
	defer cancel(nil)
	took, err := eventually(ctx, "the manager to be ready", m.ready)
	if err != nil {
		return err
	}
	d.good("the manager is ready after %s", took)
	return nil
}

func (d *demo) applySample(ctx context.Context) error {
	content, err := os.ReadFile(filepath.Join(d.root, sampleFile))
	if err != nil {
		return fmt.Errorf("read the sample: %w", err)
	}
	var sample guestbook
	if err := yaml.Unmarshal(content, &sample); err != nil {
		return fmt.Errorf("read the sample %s: %w", sampleFile, err)
	}
	d.sample = sample.Metadata.Name

	for _, command := range []string{
		"kubectl apply -f " + sampleFile,
		"kubectl wait --for=condition=Ready --timeout=120s guestbook/" + d.sample,
		"kubectl get guestbook",
		"kubectl get deployments,services,pods",
	} {
		if _, err := d.show(ctx, command); err != nil {
			return err
		}
	}
	current, err := d.guestbook(ctx)
	if err != nil {
		return err
	}
	if err := current.releasedAt(1); err != nil {
		return err
	}
	d.good("%s is Ready: release %s, revision %d", d.sample, current.Status.ReleaseName, current.Status.Revision)
	return d.checkStatusIsSmall(ctx)
}

func (d *demo) lookWithHelm(ctx context.Context) error {
	for _, command := range []string{
		"helm list",
		"helm history " + d.sample,
		"kubectl get guestbook " + d.sample + " -o yaml | sed -n '/^spec:/,/^status:/p'",
		"helm get values " + d.sample,
	} {
		if _, err := d.show(ctx, command); err != nil {
			return err
		}
	}
	if err := d.checkListed(ctx); err != nil {
		return err
	}
	d.good("helm list shows the release as deployed")
	if err := d.checkValues(ctx); err != nil {
		return err
	}
	d.good("helm's values are the spec, without Chartgate's own fields")
	return nil
}

func (d *demo) change(ctx context.Context) error {
	before, err := d.guestbook(ctx)
	if err != nil {
		return err
	}
	replicas := 1
	if n, ok := before.Spec["replicaCount"].(float64); ok {
		replicas = int(n)
	}
	// A setting of Chartgate's own goes along: it must not show up among the chart's values.
	patch := fmt.Sprintf(`{"spec":{"replicaCount":%d,"release":{"maxHistory":5}}}`, replicas+2)
	for _, command := range []string{
		fmt.Sprintf("kubectl patch guestbook %s --type merge -p '%s'", d.sample, patch),
		fmt.Sprintf("kubectl wait --for=jsonpath='{.status.revision}'=2 --timeout=120s guestbook/%s", d.sample),
		"kubectl wait --for=condition=Ready --timeout=120s guestbook/" + d.sample,
		"kubectl get guestbook",
		"helm history " + d.sample,
		"helm get values " + d.sample,
		"kubectl get deployment " + d.sample,
	} {
		if _, err := d.show(ctx, command); err != nil {
			return err
		}
	}
	current, err := d.guestbook(ctx)
	if err != nil {
		return err
	}
	return errors.Join(
		current.releasedAt(2),
		d.checkHistory(ctx, "superseded", "deployed"),
		d.checkValues(ctx),
		d.checkReplicas(ctx, replicas+2),
	)
}

func (d *demo) deleteService(ctx context.Context) error {
	const uid = "kubectl get service %s -o jsonpath='{.metadata.uid}'"
	before, err := d.ask(ctx, fmt.Sprintf(uid, d.sample))
	if err != nil {
		return err
	}
	for _, command := range []string{
		"kubectl get service " + d.sample,
		"kubectl delete service " + d.sample,
	} {
		if _, err := d.show(ctx, command); err != nil {
			return err
		}
	}
	took, err := eventually(ctx, "the Service to be back", func(ctx context.Context) error {
		after, err := d.ask(ctx, fmt.Sprintf(uid, d.sample))
		if err == nil && after == before {
			return errors.New("the Service was not deleted")
		}
		return err
	})
	if err != nil {
		return err
	}
	if _, err := d.show(ctx, "kubectl get service "+d.sample); err != nil {
		return err
	}
	d.good("a new Service is there after %s", took)
	return d.checkHistory(ctx, "superseded", "deployed")
}

func (d *demo) editDeployment(ctx context.Context) error {
	image := fmt.Sprintf("kubectl get deployment %s -o jsonpath='{.spec.template.spec.containers[0].image}{\"\\n\"}'", d.sample)
	before, err := d.show(ctx, image)
	if err != nil {
		return err
	}
	if _, err := d.show(ctx, fmt.Sprintf("kubectl set image deployment/%s '*=example.invalid/somebody-elses:1'", d.sample)); err != nil {
		return err
	}
	took, err := eventually(ctx, "the image to be put back", func(ctx context.Context) error {
		after, err := d.ask(ctx, image)
		if err == nil && after != before {
			return fmt.Errorf("the image is %s", strings.TrimSpace(after))
		}
		return err
	})
	if err != nil {
		return err
	}
	if _, err := d.show(ctx, image); err != nil {
		return err
	}
	d.good("the image is put back after %s", took)
	for _, command := range []string{
		"kubectl wait --for=condition=Ready --timeout=120s guestbook/" + d.sample,
		"kubectl events --for guestbook/" + d.sample,
		"helm history " + d.sample,
	} {
		if _, err := d.show(ctx, command); err != nil {
			return err
		}
	}
	return d.checkHistory(ctx, "superseded", "deployed")
}

func (d *demo) deleteSample(ctx context.Context) error {
	manifest := filepath.Join(d.dir, "released.yaml")
	for _, command := range []string{
		fmt.Sprintf("helm get manifest %s > %s", d.sample, manifest),
		"kubectl get -f " + manifest,
		"kubectl get secrets -l owner=helm",
		"kubectl delete guestbook --timeout=120s " + d.sample,
		"helm list --all",
		"kubectl get guestbook",
		"kubectl get secrets -l owner=helm",
		"kubectl get -f " + manifest + " --ignore-not-found",
	} {
		if _, err := d.show(ctx, command); err != nil {
			return err
		}
	}
	took, err := eventually(ctx, "the rest to be garbage collected", func(ctx context.Context) error {
		return d.checkNothingLeft(ctx, manifest)
	})
	if err != nil {
		return err
	}
	if _, err := d.show(ctx, "kubectl get all,secrets,persistentvolumeclaims,ingresses -l app.kubernetes.io/instance="+d.sample); err != nil {
		return err
	}
	d.good("release, objects and Secrets are gone (waited %s for pods to follow)", took)
	return nil
}
