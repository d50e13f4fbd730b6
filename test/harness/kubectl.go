// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/chartgate/chartgate/test/controlplane"
)

// Kubectl runs the real kubectl in the test's namespace and returns what it prints.
func (e *Env) Kubectl(args ...string) string {
	e.Helper()
	programs, err := controlplane.Resolve(e.Ctx, os.Stderr, controlplane.Kubectl)
	if err != nil {
		e.Fatal(err)
	}
	return e.run(programs[controlplane.Kubectl], append([]string{"--namespace", e.Namespace}, args...))
}

// Shell returns a runner of commands whose kubectl and helm work in the test's namespace.
func (e *Env) Shell() func(script string) string {
	e.Helper()
	programs, err := controlplane.Resolve(e.Ctx, os.Stderr, controlplane.Kubectl)
	if err != nil {
		e.Fatal(err)
	}
	dir := e.TempDir()
	config, err := clientcmd.LoadFromFile(e.Cluster.KubeconfigPath())
	if err != nil {
		e.Fatal(err)
	}
	config.Contexts[config.CurrentContext].Namespace = e.Namespace
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		e.Fatal(err)
	}
	for name, program := range map[string]string{"kubectl": programs[controlplane.Kubectl], "helm": e.HelmProgram()} {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			e.Fatal(err)
		}
	}
	return func(script string) string {
		e.Helper()
		ctx, cancel := context.WithTimeout(e.Ctx, 2*Wait)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-e", "-c", script) // #nosec G204 -- the script is the test's own choice
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}     // what the shell started ends with it
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = time.Second
		cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig)
		out, err := cmd.CombinedOutput()
		if err != nil {
			e.Fatalf("%v: %s\n%s", err, script, out)
		}
		return string(out)
	}
}
