// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/chartgate/chartgate/test/controlplane"
)

const (
	// RaceEnv names the environment variable that, if not empty, has operators
	// that run as processes built with the race detector.
	RaceEnv = "CHARTGATE_TEST_RACE"

	// processLife bounds the life of a process that nobody ends.
	processLife = 5 * time.Minute
	// logTail is how many lines of its log a failed test shows.
	logTail = 60
)

// program is the operator's binary, built once for the test binary.
var program struct {
	once sync.Once
	path string
	err  error
}

// Process is the operator as a process of its own, which can be killed. Its
// methods may be called by any goroutine.
type Process struct {
	binary, log string
	args, env   []string

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process is gone
	ended  bool          // no further process is to start
}

// ProcessOptions of an operator that runs as a process.
type ProcessOptions struct {
	// Watches is the content of watches.yaml.
	Watches string
	// Args are further flags, Env further variables of the environment ("NAME=value").
	Args, Env []string
	// Config of the API server. Default: the control plane's administrator.
	Config *rest.Config
}

// StartProcess starts the operator as a process. It is killed at the end of
// the test; if that failed, the end of the operator's log is shown.
func (e *Env) StartProcess(o ProcessOptions) *Process {
	e.Helper()
	if o.Config == nil {
		o.Config = e.Cluster.Config()
	}
	dir := e.TempDir()
	watches, kubeconfig := filepath.Join(dir, "watches.yaml"), filepath.Join(dir, "kubeconfig")
	e.WriteFile(watches, o.Watches)
	if err := controlplane.WriteKubeconfig(kubeconfig, o.Config); err != nil {
		e.Fatal(err)
	}
	p := &Process{
		binary: e.buildManager(),
		log:    filepath.Join(dir, "manager.log"),
		args: append([]string{
			"--watches-file", watches, "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
			"--zap-stacktrace-level", "panic", // a log is read by people here
		}, o.Args...),
		env: slices.Concat(os.Environ(), []string{"KUBECONFIG=" + kubeconfig}, o.Env),
	}
	e.Cleanup(func() {
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		p.Kill()
		if e.Failed() {
			e.Logf("the operator's log:\n%s", p.Log(logTail))
		}
	})
	if err := p.Start(); err != nil {
		e.Fatal(err)
	}
	return p
}

// Start starts the operator again after it was killed or stopped.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.cmd != nil {
		return fmt.Errorf("start %s: it is running, or its test is over", p.binary)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.binary, p.args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, log, log
	cmd.SysProcAttr = dieWithParent()
	exited, started := make(chan struct{}), make(chan error)
	go func() {
		defer close(exited)
		runtime.LockOSThread() // the kernel takes the end of this thread for the end of the parent
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		life := time.AfterFunc(processLife, func() { _ = cmd.Process.Kill() })
		defer life.Stop()
		_ = cmd.Wait()
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.binary, err)
	}
	_, _ = fmt.Fprintf(log, "--- process %d\n", cmd.Process.Pid)
	p.cmd, p.exited = cmd, exited
	return nil
}

// Kill kills the process, as the kernel does when memory runs out, and returns
// when it is gone. It does nothing if none is running.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

// Stop asks the process to end, as a kubelet does, and returns its exit code:
// -1 if it did not end in time, or was killed.
func (p *Process) Stop() int { return p.end(syscall.SIGTERM) }

func (p *Process) end(signal syscall.Signal) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	_ = p.cmd.Process.Signal(signal)
	select {
	case <-p.exited:
	case <-time.After(Wait):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	code := p.cmd.ProcessState.ExitCode()
	p.cmd = nil
	return code
}

// Exited returns a channel that is closed when the present process is gone.
func (p *Process) Exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}

// Log returns the last lines of what the operator printed in all its lives.
func (p *Process) Log(lines int) string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// buildManager builds the operator once for the test binary, into the control
// plane's folder, which goes with it.
func (e *Env) buildManager() string {
	e.Helper()
	program.once.Do(func() {
		program.path = filepath.Join(e.Cluster.Dir(), "manager")
		cmd := exec.Command("go", "build", "-o", program.path)
		cmd.Dir = e.Root()
		if os.Getenv(RaceEnv) != "" {
			cmd.Args = append(cmd.Args, "-race")
			cmd.Env = append(cmd.Environ(), "CGO_ENABLED=1")
		}
		cmd.Args = append(cmd.Args, "./cmd/manager")
		if out, err := cmd.CombinedOutput(); err != nil {
			program.err = fmt.Errorf("build the operator: %w\n%s", err, out)
		}
	})
	if program.err != nil {
		e.Fatal(program.err)
	}
	return program.path
}

// In returns the kind for use in another test's Env.
func (k *Kind) In(e *Env) *Kind {
	out := *k
	out.env = e
	return &out
}
