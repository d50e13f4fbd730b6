// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/chartgate/chartgate/test/controlplane"
)

const nodes = 2

// A cluster is a running control plane.
type cluster struct {
	kubeconfig string
	stop       func() error
}

// startCluster starts a control plane that ends with the demo.
func startCluster(ctx context.Context, t *terminal) (*cluster, error) {
	t.say("etcd, kube-apiserver, kube-controller-manager, kube-scheduler and %d simulated nodes, on loopback", nodes)
	c, err := controlplane.Start(ctx, controlplane.Options{Nodes: nodes, Progress: t.out})
	if err != nil {
		return nil, err
	}
	return &cluster{kubeconfig: c.KubeconfigPath(), stop: c.Stop}, nil
}

// startKeptCluster starts a control plane that outlives the demo.
func startKeptCluster(ctx context.Context, t *terminal, dir string) (*cluster, error) {
	folder := clusterDir(dir)
	_, err := t.show(ctx, fmt.Sprintf("go run ./test/controlplane/cmd/cluster up --dir %s --nodes %d", folder, nodes))
	if err != nil {
		return nil, err
	}
	return &cluster{
		kubeconfig: filepath.Join(folder, "admin.kubeconfig"),
		stop:       func() error { return stopKeptCluster(context.WithoutCancel(ctx), t, dir) },
	}, nil
}

func stopKeptCluster(ctx context.Context, t *terminal, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err := t.ask(ctx, "go run ./test/controlplane/cmd/cluster down --dir "+clusterDir(dir))
	return err
}

// keptDir is where everything of a kept demo is.
func keptDir(root string) string { return filepath.Join(root, ".demo") }

func clusterDir(dir string) string { return filepath.Join(dir, "cluster") }

func pidFile(dir string) string { return filepath.Join(dir, "manager.pid") }

// stopKept ends what an earlier demo left running, and removes its folder.
func stopKept(ctx context.Context, root string, t *terminal) error {
	t.dir = root
	dir := keptDir(root)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		t.say("There is no demo to stop.")
		return nil
	}
	if err := stopKeptManager(ctx, t, dir); err != nil {
		return err
	}
	if _, err := os.Stat(clusterDir(dir)); err == nil {
		if err := stopKeptCluster(ctx, t, dir); err != nil {
			return fmt.Errorf("stop the demo's cluster: %w", err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the demo's folder: %w", err)
	}
	t.say("The demo is stopped, and nothing of it is left.")
	return nil
}

func stopKeptManager(ctx context.Context, t *terminal, dir string) error {
	pid, running := keptManager(ctx, t, dir)
	if !running {
		return nil
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("find the demo's manager: %w", err)
	}
	_ = process.Signal(syscall.SIGTERM)
	for range 150 {
		if _, running := keptManager(ctx, t, dir); !running {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	_ = process.Kill()
	return nil
}

// keptManager tells which process a kept demo's manager is, and whether it runs. The number in the
// file may be another program's by now.
func keptManager(ctx context.Context, t *terminal, dir string) (int, bool) {
	content, err := os.ReadFile(pidFile(dir))
	if err != nil {
		return 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, false
	}
	args, err := t.ask(ctx, fmt.Sprintf("ps -o args= -p %d", pid))
	return pid, err == nil && strings.Contains(args, "bin/manager")
}
