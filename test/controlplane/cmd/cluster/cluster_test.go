// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chartgate/chartgate/test/controlplane/realnode"
)

// commandVariable makes the test binary act as the command, since up starts
// its own program again in the background.
const commandVariable = "CHARTGATE_TEST_CLUSTER_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(commandVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// run runs the command in a process of its own and returns all its output.
func run(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, os.Args[0], arguments...)
	command.Env = append(os.Environ(), commandVariable+"=1")
	output, err := command.CombinedOutput()
	return string(output), err
}

func TestUpStatusDown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	in := func(command string, arguments ...string) []string {
		return append([]string{command, "--dir", dir}, arguments...)
	}
	if output, err := run(t, in("status")...); err == nil {
		t.Errorf("status succeeds before up:\n%s", output)
	}
	t.Cleanup(func() { _ = down(context.Background(), &bytes.Buffer{}, dir) })
	for _, want := range []string{"is ready after", "is up already"} {
		output, err := run(t, in("up", "--nodes=0", "--controllers=false", "--life=5m")...)
		if err != nil {
			t.Fatalf("up: %v\n%s", err, output)
		}
		for _, want := range []string{want, "export KUBECONFIG=" + filepath.Join(dir, "admin.kubeconfig")} {
			if !strings.Contains(output, want) {
				t.Errorf("up lacks %q:\n%s", want, output)
			}
		}
	}
	current, err := readState(dir)
	if err != nil || current == nil {
		t.Fatalf("state: %v, %v", current, err)
	}
	output, err := run(t, in("status")...)
	if err != nil || strings.Count(output, "running") != 2 {
		t.Errorf("status: %v\n%s", err, output)
	}
	if output, err := run(t, in("down")...); err != nil {
		t.Errorf("down: %v\n%s", err, output)
	}
	for _, process := range append(current.Servers, current.Serve) {
		if process.alive() {
			t.Errorf("%s (pid %d) runs after down", process.Name, process.PID)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left after down: %v", dir, err)
	}
	if output, err := run(t, in("down")...); err != nil || !strings.Contains(output, "No control plane is up") {
		t.Errorf("a second down: %v\n%s", err, output)
	}
}

func TestUpStatusDownWithARealNode(t *testing.T) {
	if err := realnode.Supported(); err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(t.TempDir(), "cluster")
	t.Cleanup(func() { _ = down(context.Background(), &bytes.Buffer{}, dir) })
	output, err := run(t, "up", "--dir", dir, "--real", "--life=10m")
	if err != nil {
		t.Fatalf("up: %v\n%s", err, output)
	}
	for _, want := range []string{"the node is Ready", "one real node", realnode.RegistryInside} {
		if !strings.Contains(output, want) {
			t.Errorf("up lacks %q:\n%s", want, output)
		}
	}
	if output, err := run(t, "status", "--dir", dir); err != nil || !strings.Contains(output, "kubelet") {
		t.Errorf("status: %v\n%s", err, output)
	}
	current, err := readState(dir)
	if err != nil || current == nil {
		t.Fatalf("state: %v, %v", current, err)
	}
	if output, err := run(t, "down", "--dir", dir); err != nil {
		t.Errorf("down: %v\n%s", err, output)
	}
	for _, process := range append(current.Servers, current.Serve) {
		if process.alive() {
			t.Errorf("%s (pid %d) runs after down", process.Name, process.PID)
		}
	}
}

func TestForeignFolderIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"up", "down"} {
		if output, err := run(t, command, "--dir", dir); err == nil || !strings.Contains(output, "--dir") {
			t.Errorf("%s: %v\n%s", command, err, output)
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestReusedProcessIDIsNotKilled(t *testing.T) {
	bystander := exec.Command("sleep", "60")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = bystander.Wait()
		close(ended)
	}()
	record, err := newRecord("bystander", bystander.Process.Pid, "")
	if err != nil {
		t.Fatal(err)
	}
	if !record.alive() {
		t.Fatal("a running process is not alive")
	}

	reused := record
	reused.Started = "long ago"
	if err := (&state{Serve: reused, Servers: []processRecord{reused}}).stop(t.Context()); err != nil {
		t.Error(err)
	}
	if !record.alive() {
		t.Fatal("the bystander was killed")
	}
	record.signal(syscall.SIGKILL)
	<-ended
	if record.alive() {
		t.Error("an ended process is alive")
	}
}
