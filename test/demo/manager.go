// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A manager is bin/manager as a process.
type manager struct {
	process *os.Process
	log     string
	health  string
	exited  chan struct{} // closed when it is gone
}

// startManager starts the manager with further flags and returns at once. Unless it is kept, it ends with the demo.
func startManager(t *terminal, dir string, keep bool, flags ...string) (*manager, error) {
	health, err := freeAddress()
	if err != nil {
		return nil, err
	}
	m := &manager{log: filepath.Join(dir, "manager.log"), health: health, exited: make(chan struct{})}
	log, err := os.Create(m.log)
	if err != nil {
		return nil, fmt.Errorf("open the manager's log: %w", err)
	}
	defer log.Close()

	args := []string{
		"--watches-file", "watches.yaml",
		"--metrics-bind-address", "0",
		"--health-probe-bind-address", health,
	}
	args = append(args, flags...)
	t.prompt("bin/manager " + strings.Join(args, " ") + " &")
	cmd := exec.Command(filepath.Join("bin", "manager"), args...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), t.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if keep {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	} else {
		cmd.SysProcAttr = dieWithParent()
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the manager: %w", err)
	}
	m.process = cmd.Process
	go func() {
		_ = cmd.Wait()
		close(m.exited)
	}()
	if !keep {
		return m, nil
	}
	if err := os.WriteFile(pidFile(dir), []byte(strconv.Itoa(m.process.Pid)+"\n"), 0o644); err != nil {
		return m, fmt.Errorf("note the manager's process id: %w", err)
	}
	return m, nil
}

// bound returns a context that ends when the manager is gone.
func (m *manager) bound(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-m.exited:
			cancel(errors.New("the manager exited"))
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// ready tells whether the manager's readiness probe succeeds.
func (m *manager) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.health+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz says %s", response.Status)
	}
	return nil
}

func (m *manager) stop() {
	_ = m.process.Signal(syscall.SIGTERM)
	select {
	case <-m.exited:
	case <-time.After(15 * time.Second):
		_ = m.process.Kill()
		<-m.exited
	}
}

// tail returns the last lines of the manager's log.
func (m *manager) tail(lines int) string {
	content, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
