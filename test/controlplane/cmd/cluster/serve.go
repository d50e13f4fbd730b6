// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/controlplane/realnode"
	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// A cluster is a running control plane, with simulated nodes or a real one.
type cluster interface {
	Servers() []supervise.Server
	URL() string
	KubeconfigPath() string
	Stop() error
}

func (f *upFlags) options(dir string) controlplane.Options {
	return controlplane.Options{
		Controllers: f.controllers,
		Nodes:       f.nodes,
		AuditLog:    f.audit,
		Dir:         dir,
		MaxLife:     f.life,
	}
}

// prepare makes the programs that are missing, and fails if the machine can't
// run what is asked for.
func (f *upFlags) prepare(ctx context.Context, dir string) error {
	programs := f.options(dir).Programs()
	if f.real {
		if err := realnode.Supported(); err != nil {
			return err
		}
		programs = realnode.Programs()
	}
	_, err := controlplane.Resolve(ctx, os.Stderr, programs...)
	return err
}

func (f *upFlags) start(ctx context.Context, dir string) (cluster, error) {
	if f.real {
		return realnode.Start(ctx, realnode.Options{Dir: dir, AuditLog: f.audit, MaxLife: f.life})
	}
	return controlplane.Start(ctx, f.options(dir))
}

func newServeCommand(dir *string) *cobra.Command {
	var flags upFlags
	command := &cobra.Command{
		Use:    "serve",
		Short:  "Run a control plane in the foreground until SIGTERM or the end of its life",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(command *cobra.Command, _ []string) error {
			return serve(command.Context(), *dir, flags)
		},
	}
	flags.register(command)
	return command
}

func serve(ctx context.Context, dir string, flags upFlags) (err error) {
	deadline := time.Now().Add(flags.life)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	self, err := newRecord("serve", os.Getpid(), filepath.Join(dir, logName))
	if err != nil {
		return err
	}
	current := state{
		Serve: self, Deadline: deadline, Nodes: flags.nodes, Audit: flags.audit,
		Controllers: flags.controllers || flags.nodes > 0 || flags.real,
	}
	if err := current.write(dir); err != nil {
		return err
	}
	cluster, err := flags.start(ctx, dir)
	if err != nil {
		return err
	}
	if withNode, ok := cluster.(*realnode.Cluster); ok {
		current.Registry = withNode.Registry()
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	for _, server := range cluster.Servers() {
		record, err := newRecord(server.Name, server.PID, server.LogPath)
		if err != nil {
			return err
		}
		current.Servers = append(current.Servers, record)
	}
	current.URL, current.Kubeconfig, current.Ready = cluster.URL(), cluster.KubeconfigPath(), true
	if err := current.write(dir); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
