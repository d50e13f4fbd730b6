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
)

const (
	webAppSample = "config/samples/apps_v1alpha1_webapp.yaml"
	webAppName   = "webapp-sample"
	databaseName = "shop-db"
)

// applyWebApp shows a kind whose users see no chart: replicas change at once, and make no revision.
func (d *demo) applyWebApp(ctx context.Context) error {
	const running = "kubectl wait --for=jsonpath='{.status.phase}'=Running --timeout=120s webapp/" + webAppName
	for _, command := range []string{
		"sed -n '/^spec:/,$p' " + webAppSample,
		"kubectl apply -f " + webAppSample,
		running,
		"kubectl scale webapp/" + webAppName + " --replicas=4",
		"kubectl wait --for=jsonpath='{.status.readyReplicas}'=4 --timeout=60s webapp/" + webAppName,
		running,
		"kubectl get webapps",
	} {
		if _, err := d.show(ctx, command); err != nil {
			return err
		}
	}
	history, err := d.show(ctx, "helm history "+webAppName)
	if err != nil {
		return err
	}
	if n := strings.Count(history, "\n"); n != 2 {
		return fmt.Errorf("helm history has %d lines, want one revision below its head: scaling makes none", n)
	}
	d.good("4 replicas are ready, and it is still revision 1")
	_, err = d.show(ctx, "kubectl delete -f "+webAppSample)
	return err
}

// databaseManifest is a Database of three servers, and the volumes that a storage driver would make
// for them: the simulated nodes have none.
const databaseManifest = `apiVersion: apps.chartgate.dev/v1alpha1
kind: Database
metadata:
  name: ` + databaseName + `
spec:
  version: "17"
  replicas: 3
  storageSize: 1Gi
`

const volumeManifest = `---
apiVersion: v1
kind: PersistentVolume
metadata:
  name: %[1]s
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteOnce]
  claimRef: {namespace: default, name: %[1]s}
  hostPath: {path: /simulated}
`

// applyDatabase shows a primary with standbys, and that its data outlive it.
func (d *demo) applyDatabase(ctx context.Context) error {
	manifest, volumes := filepath.Join(d.dir, "database.yaml"), filepath.Join(d.dir, "volumes.yaml")
	var pvs strings.Builder
	claims := []string{"data-" + databaseName + "-0", "data-" + databaseName + "-standby-0", "data-" + databaseName + "-standby-1"}
	for _, claim := range claims {
		fmt.Fprintf(&pvs, volumeManifest, claim)
	}
	if err := errors.Join(os.WriteFile(manifest, []byte(databaseManifest), 0o600), os.WriteFile(volumes, []byte(pvs.String()), 0o600)); err != nil {
		return err
	}
	if _, err := d.ask(ctx, "kubectl apply -f "+volumes); err != nil {
		return err
	}
	for _, command := range []string{
		"cat " + manifest,
		"kubectl apply -f " + manifest,
		"kubectl wait --for=jsonpath='{.status.phase}'=Running --timeout=120s database/" + databaseName,
		"kubectl get databases",
		"kubectl get statefulsets,services,pods -l app=" + databaseName,
		"kubectl delete database " + databaseName,
	} {
		if _, err := d.show(ctx, command); err != nil {
			return err
		}
	}
	left, err := d.show(ctx, "kubectl get persistentvolumeclaims,secrets -l chartgate.dev/database="+databaseName+" -o name")
	if err != nil {
		return err
	}
	if want := len(claims) + 1; strings.Count(left, "\n") != want {
		return fmt.Errorf("%d objects are left, want the %d claims and the credentials", strings.Count(left, "\n"), len(claims))
	}
	d.good("claims and credentials outlive the Database: one of the same name finds them again")
	if _, err := d.show(ctx, "kubectl delete persistentvolumeclaims,secrets -l chartgate.dev/database="+databaseName); err != nil {
		return err
	}
	_, err = d.ask(ctx, "kubectl delete -f "+volumes)
	return err
}
