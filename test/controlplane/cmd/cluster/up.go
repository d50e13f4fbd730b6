// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// upFlags are passed on from up to the serving process.
type upFlags struct {
	real        bool
	nodes       int
	controllers bool
	audit       bool
	life        time.Duration
}

func (f *upFlags) register(command *cobra.Command) {
	command.Flags().BoolVar(&f.real, "real", false, "run one real node instead of simulated ones (Linux, as root)")
	command.Flags().IntVar(&f.nodes, "nodes", 2, "simulated nodes; more than zero implies --controllers")
	command.Flags().BoolVar(&f.controllers, "controllers", true, "run kube-controller-manager and kube-scheduler")
	command.Flags().BoolVar(&f.audit, "audit", false, "record all requests in audit.log")
	command.Flags().DurationVar(&f.life, "life", 8*time.Hour, "stop by itself after this time")
}

func (f *upFlags) arguments() []string {
	return []string{
		"--real=" + strconv.FormatBool(f.real),
		"--nodes=" + strconv.Itoa(f.nodes),
		"--controllers=" + strconv.FormatBool(f.controllers),
		"--audit=" + strconv.FormatBool(f.audit),
		"--life=" + f.life.String(),
	}
}

func newUpCommand(dir *string) *cobra.Command {
	var flags upFlags
	command := &cobra.Command{
		Use:   "up",
		Short: "Start a control plane in the background and wait until it is ready",
		Long:  "Start a control plane in the background and wait until it is ready.\nIt does nothing if one is up already in the folder.",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return up(command.Context(), command.OutOrStdout(), *dir, flags)
		},
	}
	flags.register(command)
	return command
}

func up(ctx context.Context, out io.Writer, dir string, flags upFlags) error {
	if err := checkDir(dir); err != nil {
		return err
	}
	current, err := readState(dir)
	if err != nil {
		return err
	}
	if current != nil && current.Serve.alive() {
		if current, err = awaitReady(ctx, dir, current.Serve.alive); err != nil {
			return err
		}
		fmt.Fprintln(out, "The control plane is up already.")
		current.describe(out)
		return nil
	}
	if err := down(ctx, io.Discard, dir); err != nil {
		return err
	}
	// Builds belong in the foreground, where their progress is seen.
	if err := flags.prepare(ctx, dir); err != nil {
		return err
	}
	fmt.Fprintln(out, "Starting the control plane ...")
	begin := time.Now()
	running, terminate, err := serveInBackground(dir, flags)
	if err != nil {
		return err
	}
	follow := followLog(out, dir)
	started, err := awaitReady(ctx, dir, running)
	follow()
	if err != nil {
		terminate()
		return err
	}
	fmt.Fprintf(out, "The control plane is ready after %.1f s.\n", time.Since(begin).Seconds())
	started.describe(out)
	return nil
}

// serveInBackground starts this program's serve command in a session of its
// own, so that it outlives the terminal.
func serveInBackground(dir string, flags upFlags) (running func() bool, terminate func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find this program: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("create the control plane's folder: %w", err)
	}
	log, err := os.Create(filepath.Join(dir, logName))
	if err != nil {
		return nil, nil, fmt.Errorf("create the log: %w", err)
	}
	defer log.Close()
	serve := exec.Command(self, append([]string{"serve", "--dir=" + dir}, flags.arguments()...)...)
	serve.Stdout, serve.Stderr = log, log
	serve.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := serve.Start(); err != nil {
		return nil, nil, fmt.Errorf("start the background process: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = serve.Wait()
		close(exited)
	}()
	running = func() bool {
		select {
		case <-exited:
			return false
		default:
			return true
		}
	}
	terminate = func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		<-exited
	}
	return running, terminate, nil
}

// followLog shows what the serving process says, until the returned function
// is called.
func followLog(out io.Writer, dir string) (stop func()) {
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		log, err := os.Open(filepath.Join(dir, logName))
		if err != nil {
			return
		}
		defer log.Close()
		for last := false; ; {
			_, _ = io.Copy(out, log) // from where the last one ended
			if last {
				return
			}
			select {
			case <-done:
				last = true
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() {
		close(done)
		<-stopped
	}
}

// awaitReady waits until the serving process says that all servers are ready.
func awaitReady(ctx context.Context, dir string, running func() bool) (*state, error) {
	for {
		alive := running()
		current, err := readState(dir)
		if err != nil {
			return nil, err
		}
		if alive && current != nil && current.Ready {
			return current, nil
		}
		if !alive {
			return nil, fmt.Errorf("the control plane did not start: %s says why", filepath.Join(dir, logName))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the control plane: %w", context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
