// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopGrace is the time that a server gets between SIGTERM and SIGKILL.
const stopGrace = 5 * time.Second

// A Server is one running process of a [Cluster].
type Server struct {
	// Name is the program's name, such as kube-apiserver.
	Name string
	// PID is the server's process id, GuardPID that of its guard.
	PID, GuardPID int
	// LogPath is the file with the server's output.
	LogPath string
}

// A serverSpec is all it takes to start a server.
type serverSpec struct {
	program   Program
	path      string
	args      []string
	guardPath string
	dir       string
	removeDir bool // the guard removes dir if this process vanishes
	maxLife   time.Duration
}

// A process is a server under its guard.
type process struct {
	Server
	control io.WriteCloser // takes the guard's orders; its end means that this process is gone
	exited  chan struct{}  // closed when the guard, and so the server, is gone
}

// startServer starts a server under a guard and returns once its process
// exists.
func startServer(spec serverSpec) (*process, error) {
	logPath := filepath.Join(spec.dir, string(spec.program)+".log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", spec.program, err)
	}
	defer log.Close()

	arguments := []string{"-max-life", spec.maxLife.String(), "-grace", stopGrace.String()}
	if spec.removeDir {
		arguments = append(arguments, "-remove", spec.dir)
	}
	arguments = append(append(arguments, "--", spec.path), spec.args...)
	command := exec.Command(spec.guardPath, arguments...)
	command.Dir = spec.dir
	command.Stderr = log
	// A group of its own keeps a Ctrl-C in the terminal from the servers, so
	// that this process can stop them in order.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	control, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make the control pipe of %s: %w", spec.program, err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("make the output pipe of %s: %w", spec.program, err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the guard of %s: %w", spec.program, err)
	}
	line, readErr := bufio.NewReader(output).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err = errors.Join(readErr, err); err != nil {
		_ = control.Close()
		_ = command.Wait()
		return nil, fmt.Errorf("start %s: its guard gave no process id: %w\n%s", spec.program, err, tailFile(logPath))
	}
	p := &process{
		Server:  Server{Name: string(spec.program), PID: pid, GuardPID: command.Process.Pid, LogPath: logPath},
		control: control,
		exited:  make(chan struct{}),
	}
	go func() {
		_ = command.Wait()
		close(p.exited)
	}()
	return p, nil
}

// running tells whether the server has not left yet.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// stop ends the server: cleanly, or by force after the grace period.
func (p *process) stop() error {
	if !p.running() {
		return nil
	}
	_, _ = p.control.Write([]byte{'s'})
	return p.wait(stopGrace + 5*time.Second)
}

// kill ends the server at once.
func (p *process) kill() error {
	if !p.running() {
		return nil
	}
	_, _ = p.control.Write([]byte{'k'})
	return p.wait(10 * time.Second)
}

func (p *process) wait(limit time.Duration) error {
	select {
	case <-p.exited:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s (pid %d, guard %d) did not stop within %s: end it by hand", p.Name, p.PID, p.GuardPID, limit)
	}
}

// failure describes a server that left or did not become ready.
func (p *process) failure(what error) error {
	return fmt.Errorf("%s: %w; the end of %s:\n%s", p.Name, what, p.LogPath, tailFile(p.LogPath))
}

// waitFor polls check until it succeeds, ctx ends or one of the servers leaves.
func waitFor(ctx context.Context, what string, check func(context.Context) error, servers ...*process) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := check(attempt)
		cancel()
		if err == nil {
			return nil
		}
		for _, server := range servers {
			if !server.running() {
				return server.failure(fmt.Errorf("it left while waiting for %s", what))
			}
		}
		select {
		case <-ctx.Done():
			err = fmt.Errorf("waiting for %s: %w; last answer: %w", what, context.Cause(ctx), err)
			if len(servers) > 0 {
				return servers[0].failure(err)
			}
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// tailFile returns the last lines of a log.
func tailFile(path string) string {
	const limit = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > limit {
		_, _ = file.Seek(-limit, io.SeekEnd)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return tail(string(content), 20)
}
