// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// chartServers are a chart repository and an OCI registry on this machine. They
// speak plain HTTP, which the manager is told to allow for them.
type chartServers struct {
	dir                  string // what the repository serves
	repository, registry string // addresses
	servers              []*http.Server
}

func startChartServers(dir string) (*chartServers, error) {
	c := &chartServers{dir: filepath.Join(dir, "charts")}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, err
	}
	var err error
	if c.repository, err = c.serve(http.FileServer(http.Dir(c.dir))); err != nil {
		return nil, err
	}
	c.registry, err = c.serve(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *chartServers) serve(handler http.Handler) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("serve charts: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	c.servers = append(c.servers, server)
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String(), nil
}

func (c *chartServers) close() error {
	var errs []error
	for _, s := range c.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// flags let the manager take charts from these servers.
func (c *chartServers) flags() []string {
	return []string{
		"--allowed-repository-networks", "127.0.0.0/8",
		"--plain-http-repositories", "http://" + c.repository + ",oci://" + c.registry,
	}
}

// helmAppManifest takes the address of a chart repository.
const helmAppManifest = `apiVersion: apps.chartgate.dev/v1alpha1
kind: HelmApp
metadata:
  name: web
spec:
  chart:
    repository: http://%s
    name: web
    version: ^1.0
    updateInterval: 10s
  targetNamespace: web-prod
  release:
    serviceAccountName: deployer
`

// applyHelmApp releases a chart of a repository as its team's ServiceAccount, which first has to be
// given rights, takes a new version, and then one of a registry.
func (d *demo) applyHelmApp(ctx context.Context) error {
	manifest := filepath.Join(d.dir, "helmapp.yaml")
	if err := os.WriteFile(manifest, fmt.Appendf(nil, helmAppManifest, d.charts.repository), 0o600); err != nil {
		return err
	}
	d.say("A chart as helm create makes it, in a repository on this machine:")
	publish := func(version string) string {
		return fmt.Sprintf("helm package web --version %s && helm repo index .", version)
	}
	if err := d.showIn(ctx, d.charts.dir, "helm create web", publish("1.0.0")); err != nil {
		return err
	}
	if err := d.showAll(ctx,
		"cat "+manifest,
		"kubectl create namespace web-prod",
		"kubectl create serviceaccount deployer",
		"kubectl apply -f "+manifest,
		"kubectl wait --for=jsonpath='{.status.conditions[?(@.type==\"Ready\")].reason}'=Forbidden --timeout=60s helmapp/web",
	); err != nil {
		return err
	}
	message, err := d.show(ctx, "kubectl get helmapp web -o jsonpath='{.status.message}{\"\\n\"}'")
	if err != nil {
		return err
	}
	if !strings.Contains(message, "kubectl create") {
		return errors.New("the message doesn't say how to grant the rights")
	}
	d.good("the ServiceAccount has no rights in web-prod, and the message says how to give it some")
	if err := d.showAll(ctx,
		"kubectl create rolebinding deployer -n web-prod --clusterrole=edit --serviceaccount=default:deployer",
		"kubectl wait --for=condition=Ready --timeout=120s helmapp/web",
		"helm history web -n web-prod",
	); err != nil {
		return err
	}
	d.say("A newer version appears in the repository:")
	if err := d.showIn(ctx, d.charts.dir, publish("1.1.0")); err != nil {
		return err
	}
	if err := d.showAll(ctx, "kubectl wait --for=jsonpath='{.status.lastDeployedVersion}'=1.1.0 --timeout=60s helmapp/web"); err != nil {
		return err
	}
	d.say("And one in an OCI registry:")
	if err := d.showIn(ctx, d.charts.dir, "helm package web --version 2.0.0", "helm push web-2.0.0.tgz oci://"+d.charts.registry+"/charts --plain-http"); err != nil {
		return err
	}
	if err := d.showAll(ctx,
		`kubectl patch helmapp web --type=merge -p '{"spec":{"chart":{"repository":"oci://`+d.charts.registry+`/charts","version":"2.0.0"}}}'`,
		"kubectl wait --for=jsonpath='{.status.lastDeployedVersion}'=2.0.0 --timeout=60s helmapp/web",
	); err != nil {
		return err
	}
	history, err := d.show(ctx, "helm history web -n web-prod")
	if err != nil {
		return err
	}
	if n := strings.Count(history, "\n"); n != 4 {
		return fmt.Errorf("helm history has %d lines, want three revisions below its head", n)
	}
	d.good("three versions, from a repository and from a registry, are three revisions")
	return d.showAll(ctx, "kubectl delete helmapp web", "kubectl delete namespace web-prod --wait=false", "kubectl delete serviceaccount deployer")
}

// applyMicroservice releases manifests that are written into the resource itself.
func (d *demo) applyMicroservice(ctx context.Context) error {
	const file = "config/samples/apps_v1alpha1_microservice.yaml"
	return d.showAll(ctx,
		"sed -n '/^kind: Microservice/,$p' "+file,
		"kubectl apply -f "+file,
		"kubectl wait --for=condition=Ready --timeout=120s microservice/microservice-sample",
		"helm history microservice-sample",
		"kubectl delete microservice microservice-sample", // while its ServiceAccount has the right to
		"kubectl delete -f "+file+" --ignore-not-found",
	)
}

// showAll shows commands one after the other.
func (d *demo) showAll(ctx context.Context, commands ...string) error {
	for _, command := range commands {
		if _, err := d.show(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

// showIn shows commands that run in another folder.
func (d *demo) showIn(ctx context.Context, dir string, commands ...string) error {
	for _, command := range commands {
		if _, err := d.show(ctx, "(cd "+dir+" && "+command+")"); err != nil {
			return err
		}
	}
	return nil
}
