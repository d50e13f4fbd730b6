// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sql asks a server of the Database.
func (r resource) sql(ctx context.Context, pod, statement string) (string, error) {
	out, err := tryKubectl(ctx, "", "exec", pod, "-n", r.namespace, "-c", "postgres", "--",
		"psql", "-X", "-U", "admin", "-d", "app", "-v", "ON_ERROR_STOP=1", "-Atqc", statement)
	return strings.TrimSpace(out), err
}

func (r resource) mustSQL(t *testing.T, pod, statement, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s answers %q to %s", pod, want, statement), func(ctx context.Context) error {
		got, err := r.sql(ctx, pod, statement)
		if err == nil && got != want {
			err = fmt.Errorf("it answers %q", got)
		}
		return err
	})
}

// waitServers waits until all servers run, and as many standbys stream from the primary.
func (r resource) waitServers(t *testing.T, servers int64) {
	t.Helper()
	r.waitFor(t, fmt.Sprintf("has %d servers", servers), func(status map[string]any) error {
		if status["phase"] != "Running" || status["readyReplicas"] != servers || status["currentReplicas"] != servers {
			return fmt.Errorf("%v of %v servers are ready", status["readyReplicas"], status["currentReplicas"])
		}
		return nil
	})
	r.mustSQL(t, r.name+"-0", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'", strconv.FormatInt(servers-1, 10))
}

// writing inserts rows, one after the other, until the function that it returns is called. That
// returns how many were committed. A row whose answer was lost may be there or not.
func (r resource) writing(t *testing.T) func() int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	committed := 0
	done.Go(func() {
		for ctx.Err() == nil {
			if _, err := r.sql(ctx, r.name+"-0", fmt.Sprintf("INSERT INTO kept VALUES (%d)", committed+1)); err == nil {
				committed++
			} else if strings.Contains(err.Error(), "duplicate key") {
				committed++ // its answer was lost
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return func() int {
		cancel()
		done.Wait()
		return committed
	}
}

// newDatabase makes a Database in a namespace of its own, with a table, and returns it with its manifest,
// which more lines of the spec complete.
func newDatabase(t *testing.T, namespace string, servers int64, more string) (resource, func(more string) string) {
	t.Helper()
	db := resource{"Database", makeNamespace(t, namespace), "shop"}
	manifest := func(more string) string {
		return fmt.Sprintf(`
apiVersion: apps.chartgate.dev/v1alpha1
kind: Database
metadata: {name: shop, namespace: %s}
spec:
  version: %q
  image: %s
  replicas: %d
  storageSize: 512Mi
  resources: {requests: {cpu: 20m, memory: 64Mi}}
%s`, db.namespace, env.postgres.Major, env.postgres.Reference, servers, more)
	}
	kubectl(t, manifest(more), "apply", "-f", "-")
	db.waitServers(t, servers)
	db.mustSQL(t, "shop-0", "CREATE TABLE kept (id int PRIMARY KEY)", "")
	return db, manifest
}

// hasRows waits until a server has all rows up to n.
func (r resource) hasRows(t *testing.T, pod string, n int) {
	t.Helper()
	r.mustSQL(t, pod, fmt.Sprintf("SELECT count(*) FROM kept WHERE id <= %d", n), strconv.Itoa(n))
}

const withBackups = "  backup: {enabled: true, storageSize: 256Mi}\n"

// databaseKeepsItsRows takes a Database of three servers through what happens to databases, and looks
// for every row that it ever said to have.
func databaseKeepsItsRows(t *testing.T, o operator) {
	db, _ := newDatabase(t, "team-db", 3, withBackups)
	db.mustSQL(t, "shop-0", "SELECT pg_is_in_recovery()", "f")
	for _, standby := range []string{"shop-standby-0", "shop-standby-1"} {
		db.mustSQL(t, standby, "SELECT pg_is_in_recovery()", "t")
	}

	// What a process leaves behind, as a probe that is cut off, is no crash of the server.
	kubectl(t, "", "exec", "shop-standby-1", "-n", db.namespace, "-c", "postgres", "--", "bash", "-c", "(sleep 0.5; exit 141) > /dev/null 2>&1 &")

	// Losses, one after the other, while somebody writes.
	stop := db.writing(t)
	for _, lost := range []struct{ namespace, pod string }{{db.namespace, "shop-standby-0"}, {db.namespace, "shop-0"}, {o.namespace, ""}} {
		before := pods(t, lost.namespace)
		if lost.pod == "" {
			kubectl(t, "", "delete", "pods", "-n", lost.namespace, "-l", "control-plane=controller-manager", "--now")
		} else {
			kubectl(t, "", "delete", "pod", lost.pod, "-n", lost.namespace)
		}
		eventually(t, "another pod is there for "+lost.namespace+"/"+lost.pod, func(context.Context) error {
			if now := pods(t, lost.namespace); maps.Equal(now, before) || len(now) != len(before) { //nolint:contextcheck // it has the test's
				return errNotYet
			}
			return nil
		})
		db.waitServers(t, 3)
	}
	committed := stop()
	if committed == 0 {
		t.Fatal("nothing was written")
	}
	for _, pod := range []string{"shop-0", "shop-standby-0", "shop-standby-1"} {
		db.hasRows(t, pod, committed)
	}

	if log := kubectl(t, "", "logs", "shop-standby-1", "-n", db.namespace, "-c", "postgres"); strings.Contains(log, "terminating any other active server processes") {
		t.Errorf("the server took something for a crash:\n%s", log)
	}

	// A backup that restores.
	kubectl(t, "", "create", "job", "now", "--from=cronjob/shop-backup", "-n", db.namespace)
	waitJob(t, db.namespace, "now")
	db.waitFor(t, "tells of its backup", func(status map[string]any) error {
		if status["lastBackup"] == nil {
			return errors.New("no lastBackup")
		}
		return nil
	})
	db.mustSQL(t, "shop-0", "DROP TABLE kept", "")
	job := kubectl(t, "", "create", "job", "restore", "--from=cronjob/shop-backup", "-n", db.namespace, "--dry-run=client", "-o", "yaml")
	job = kubectl(t, job, "patch", "--local", "-f", "-", "--type=merge", "-p", `{"metadata":{"ownerReferences":null}}`, "-o", "yaml")
	job = kubectl(t, job, "set", "env", "--local", "-f", "-", "RESTORE=latest", "-o", "yaml")
	kubectl(t, job, "create", "-n", db.namespace, "-f", "-")
	waitJob(t, db.namespace, "restore")
	db.hasRows(t, "shop-0", committed)
	db.delete(t) // before its namespace, in which a repair would be refused
}

// databaseGrowsAndStays gives a Database more storage while it runs, deletes it and takes it up again
// with its rows, and deletes it with them.
func databaseGrowsAndStays(t *testing.T) {
	db, manifest := newDatabase(t, "team-grows", 2, withBackups)
	const stored = 100
	db.mustSQL(t, "shop-0", fmt.Sprintf("INSERT INTO kept SELECT generate_series(1, %d)", stored), "")
	secret := kubectl(t, "", "get", "secret", "shop-credentials", "-n", db.namespace, "-o", "jsonpath={.data}")

	// More storage under running servers.
	before := serversOf(t, db.namespace)
	db.patch(t, `{"spec":{"storageSize":"768Mi"}}`)
	db.waitRunning(t, 2)
	if now := serversOf(t, db.namespace); !maps.Equal(now, before) {
		t.Errorf("servers were %v and are %v", before, now)
	}
	db.waitServers(t, 2)

	// Retain, and back.
	db.delete(t)
	wantLeft(t, db.namespace, "persistentvolumeclaim/data-shop-0", "persistentvolumeclaim/data-shop-standby-0",
		"persistentvolumeclaim/shop-backup", "secret/shop-credentials")
	kubectl(t, manifest("  deletionPolicy: Delete\n"), "apply", "-f", "-")
	db.waitServers(t, 2)
	db.hasRows(t, "shop-0", stored)
	if now := kubectl(t, "", "get", "secret", "shop-credentials", "-n", db.namespace, "-o", "jsonpath={.data}"); now != secret {
		t.Error("the credentials changed")
	}
	db.delete(t)
	wantLeft(t, db.namespace)
}

// serversOf are the pods of a Database's servers.
func serversOf(t *testing.T, namespace string) map[string]string {
	t.Helper()
	all := pods(t, namespace)
	maps.DeleteFunc(all, func(name, _ string) bool { return !strings.HasPrefix(name, "shop") || strings.Contains(name, "backup") })
	return all
}

func waitJob(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, "job "+name+" succeeds", func(ctx context.Context) error {
		status, err := tryKubectl(ctx, "", "get", "job", name, "-n", namespace, "-o", "jsonpath={.status.conditions[?(@.status=='True')].type}")
		switch {
		case err != nil:
			return err
		case strings.Contains(status, "Failed"):
			log, _ := tryKubectl(ctx, "", "logs", "-n", namespace, "job/"+name)
			t.Fatalf("job %s failed: %s", name, log)
		case !strings.Contains(status, "Complete"):
			return errNotYet
		}
		return nil
	})
}

// wantLeft waits until just these objects of a Database are left.
func wantLeft(t *testing.T, namespace string, want ...string) {
	t.Helper()
	eventually(t, "just "+strings.Join(want, ", ")+" is left", func(ctx context.Context) error {
		out, err := tryKubectl(ctx, "", "get", "statefulsets,services,configmaps,secrets,persistentvolumeclaims,poddisruptionbudgets,cronjobs",
			"-n", namespace, "-o", "name")
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(strings.Fields(out), func(name string) bool { return name == "configmap/kube-root-ca.crt" })
		slices.Sort(left)
		var servers corev1.PodList
		if err := env.client.List(ctx, &servers, client.InNamespace(namespace), client.MatchingLabels{"app": "shop"}); err != nil {
			return err
		}
		running := slices.DeleteFunc(servers.Items, func(p corev1.Pod) bool { return p.Labels["app.kubernetes.io/component"] == "backup" })
		if len(running) > 0 || !slices.Equal(left, want) {
			return fmt.Errorf("left: %v and %d pods", left, len(running))
		}
		return nil
	})
}
