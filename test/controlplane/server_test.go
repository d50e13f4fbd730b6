// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// processRuns tells whether a process exists and is not a zombie that waits
// for its parent.
func processRuns(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) || runtime.GOOS != "linux"
	}
	return !bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" Z"))
}

func ended(pids ...int) func(context.Context) error {
	return func(context.Context) error {
		for _, pid := range pids {
			if processRuns(pid) {
				return fmt.Errorf("process %d still runs", pid)
			}
		}
		return nil
	}
}

func TestKilledProcessLeavesNoServersBehind(t *testing.T) {
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), holderVariable+"=1")
	holder.Stderr = os.Stderr
	input, err := holder.StdinPipe() // so the holder ends even if this test does not kill it
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	output, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	var held holding
	decodeErr := json.NewDecoder(output).Decode(&held)
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	if decodeErr != nil {
		t.Fatalf("the holder did not start a control plane: %v", decodeErr)
	}
	if len(held.Servers) != 2 {
		t.Fatalf("the holder started %+v, want etcd and kube-apiserver", held.Servers)
	}

	var pids []int
	for _, server := range held.Servers {
		pids = append(pids, server.PID, server.GuardPID)
	}
	ctx := testContext(t, 10*time.Second)
	if err := supervise.WaitFor(ctx, "the end of the servers", ended(pids...)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(held.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary folder %s is left: %v", held.Dir, err)
	}
}

func TestGuardEndsItsServer(t *testing.T) {
	ctx := testContext(t, time.Minute)
	programs, err := Resolve(ctx, os.Stderr, Guard)
	if err != nil {
		t.Fatal(err)
	}
	const ignoresSIGTERM = `trap "" TERM; while :; do sleep 0.1; done`
	for name, test := range map[string]struct {
		script  string
		maxLife time.Duration
		end     func(*testing.T, *supervise.Process) error
	}{
		"on a clean stop": {
			script: "exec sleep 60",
			end:    func(_ *testing.T, p *supervise.Process) error { return p.Stop() },
		},
		"by force if it ignores the clean stop": {
			script: ignoresSIGTERM,
			end:    func(_ *testing.T, p *supervise.Process) error { return p.Stop() },
		},
		"at once if it is told to": {
			script: ignoresSIGTERM,
			end:    func(_ *testing.T, p *supervise.Process) error { return p.Kill() },
		},
		"when its parent is gone": {
			script: ignoresSIGTERM,
			end:    func(_ *testing.T, p *supervise.Process) error { return p.Abandon() },
		},
		"at the end of its life": {
			script:  ignoresSIGTERM,
			maxLife: 200 * time.Millisecond,
			end:     func(_ *testing.T, p *supervise.Process) error { return p.Wait(10 * time.Second) },
		},
		"when guard itself is killed, on Linux": {
			script: ignoresSIGTERM,
			end: func(t *testing.T, p *supervise.Process) error {
				if runtime.GOOS != "linux" {
					t.Skip("needs Linux's parent death signal")
				}
				return syscall.Kill(p.GuardPID, syscall.SIGKILL)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			maxLife := time.Minute
			if test.maxLife > 0 {
				maxLife = test.maxLife
			}
			shell, err := exec.LookPath("sh")
			if err != nil {
				t.Fatal(err)
			}
			started, err := supervise.Start(supervise.Spec{
				Name:      "script",
				Path:      shell,
				Args:      []string{"-c", test.script},
				GuardPath: programs[Guard],
				Dir:       t.TempDir(),
				MaxLife:   maxLife,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := test.end(t, started); err != nil {
				t.Error(err)
			}
			ctx := testContext(t, 20*time.Second)
			if err := supervise.WaitFor(ctx, "the end of the server", ended(started.PID, started.GuardPID)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestServerThatCannotStartIsNamed(t *testing.T) {
	programs, err := Resolve(testContext(t, time.Minute), os.Stderr, Guard)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	_, err = supervise.Start(supervise.Spec{Name: "etcd", Path: missing, GuardPath: programs[Guard], Dir: dir, MaxLife: time.Minute})
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte(missing)) {
		t.Errorf("got %v, want an error that names %s", err, missing)
	}
}

func TestStopMayBeRepeated(t *testing.T) {
	cluster, err := Start(testContext(t, 3*time.Minute), Options{})
	if err != nil {
		t.Fatal(err)
	}
	servers := cluster.Servers()
	for range 2 {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}
	for _, server := range servers {
		if err := ended(server.PID, server.GuardPID)(t.Context()); err != nil {
			t.Errorf("%s: %v", server.Name, err)
		}
	}
	if _, err := os.Stat(cluster.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary folder %s is left: %v", cluster.Dir(), err)
	}
	if err := cluster.StartAPIServer(t.Context()); err == nil {
		t.Error("the API server of a stopped control plane started")
	}
}
