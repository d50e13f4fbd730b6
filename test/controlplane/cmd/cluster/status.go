// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/chartgate/chartgate/test/controlplane/realnode"
)

func newStatusCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the control plane's processes; fails if it is not up",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return status(command.OutOrStdout(), *dir)
		},
	}
}

func status(out io.Writer, dir string) error {
	current, err := readState(dir)
	if err != nil {
		return err
	}
	switch {
	case current == nil || !current.Serve.alive():
		return fmt.Errorf("no control plane is up in %s: start it with up", dir)
	case !current.Ready:
		return fmt.Errorf("the control plane in %s is starting", dir)
	}
	dead := 0
	for _, server := range current.Servers {
		health := "running"
		if !server.alive() {
			health = "ended"
			dead++
		}
		fmt.Fprintf(out, "%-24s pid %-8d %-8s %s\n", server.Name, server.PID, health, server.Log)
	}
	current.describe(out)
	if dead > 0 {
		return fmt.Errorf("%d of %d servers ended: see their logs, then run down and up", dead, len(current.Servers))
	}
	return nil
}

// describe tells how to use the control plane.
func (s *state) describe(out io.Writer) {
	parts := fmt.Sprintf("%d simulated nodes", s.Nodes)
	switch {
	case s.Registry != "":
		parts = "one real node"
	case !s.Controllers:
		parts = "no controllers"
	case s.Nodes == 0:
		parts = "controllers, no nodes"
	}
	fmt.Fprintf(out, "Kubernetes API: %s (%s), until %s\n", s.URL, parts, s.Deadline.Format(time.DateTime))
	if s.Registry != "" {
		fmt.Fprintf(out, "Images: push them to %s/NAME, and let Pods use %s/NAME\n", s.Registry, realnode.RegistryInside)
	}
	fmt.Fprintf(out, "Use it with:\n  export KUBECONFIG=%s\n  kubectl get nodes\n", s.Kubeconfig)
	if _, err := exec.LookPath("kubectl"); err != nil {
		fmt.Fprintln(out, "There is no kubectl on PATH; cluster build --print kubectl builds one and prints its path.")
	}
}
