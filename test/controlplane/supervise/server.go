// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package supervise runs servers of a test cluster, each under a guard process
// that ends it as soon as the process that started it is gone.
package supervise

import (
	"bufio"
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

// A Server is one running process of a cluster.
type Server struct {
	// Name is the program's name, such as kube-apiserver.
	Name string
	// PID is the server's process id, GuardPID that of its guard.
	PID, GuardPID int
	// LogPath is the file with the server's output.
	LogPath string
}

// A Spec is all it takes to start a server.
type Spec struct {
	// Name names the server and its log.
	Name string
	// Path is the program, Args are its arguments.
	Path string
	Args []string
	// Env are variables ("NAME=value") beside this process's own.
	Env []string
	// Enter, if set, is the command that runs the guard, and so the server,
	// somewhere else, such as in other namespaces. It must run the guard as its
	// child and leave with it.
	Enter []string
	// GuardPath is the guard program, GuardArgs are further arguments of it.
	GuardPath string
	GuardArgs []string
	// Dir is the server's working folder and gets its log, Name.log.
	Dir string
	// RemoveDir has the guard remove Dir if this process vanishes.
	RemoveDir bool
	// MaxLife is how long the server lives at most.
	MaxLife time.Duration
}

// A Process is a server under its guard.
type Process struct {
	Server
	control io.WriteCloser // takes the guard's orders; its end means that this process is gone
	exited  chan struct{}  // closed when the guard, and so the server, is gone
}

// Start starts a server under a guard and returns once its process exists.
func Start(spec Spec) (*Process, error) {
	logPath := filepath.Join(spec.Dir, spec.Name+".log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", spec.Name, err)
	}
	defer log.Close()

	arguments := spec.commandLine()
	command := exec.Command(arguments[0], arguments[1:]...)
	command.Dir = spec.Dir
	command.Env = append(os.Environ(), spec.Env...)
	command.Stderr = log
	// A group of its own keeps a Ctrl-C in the terminal from the servers, so
	// that this process can stop them in order.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	control, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make the control pipe of %s: %w", spec.Name, err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("make the output pipe of %s: %w", spec.Name, err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the guard of %s: %w", spec.Name, err)
	}
	line, readErr := bufio.NewReader(output).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err = errors.Join(readErr, err); err == nil && len(spec.Enter) > 0 {
		// The guard told the id that its own process namespace gave the server.
		pid, err = grandchild(command.Process.Pid)
	}
	if err != nil {
		_ = control.Close()
		_ = command.Wait()
		return nil, fmt.Errorf("start %s: its guard gave no process id: %w\n%s", spec.Name, err, tailFile(logPath))
	}
	p := &Process{
		Server:  Server{Name: spec.Name, PID: pid, GuardPID: command.Process.Pid, LogPath: logPath},
		control: control,
		exited:  make(chan struct{}),
	}
	go func() {
		_ = command.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (s Spec) commandLine() []string {
	arguments := append([]string{}, s.Enter...)
	arguments = append(arguments, s.GuardPath, "-max-life", s.MaxLife.String(), "-grace", stopGrace.String())
	if s.RemoveDir {
		arguments = append(arguments, "-remove", s.Dir)
	}
	arguments = append(arguments, s.GuardArgs...)
	arguments = append(arguments, "--", s.Path)
	return append(arguments, s.Args...)
}

// grandchild returns the id of a process's only child's only child.
func grandchild(pid int) (int, error) {
	for range 2 {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err != nil {
			return 0, fmt.Errorf("look for the children of process %d: %w", pid, err)
		}
		if pid, err = strconv.Atoi(strings.TrimSpace(string(children))); err != nil {
			return 0, fmt.Errorf("look for the only child of process %d: %w", pid, err)
		}
	}
	return pid, nil
}

// Running tells whether the server has not left yet.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Err returns an error with the end of the server's log if it has left.
func (p *Process) Err() error {
	if p.Running() {
		return nil
	}
	return p.failure(errors.New("it left"))
}

// Stop ends the server: cleanly, or by force after the grace period.
func (p *Process) Stop() error {
	if !p.Running() {
		return nil
	}
	_, _ = p.control.Write([]byte{'s'})
	return p.Wait(stopGrace + 5*time.Second)
}

// Kill ends the server at once.
func (p *Process) Kill() error {
	if !p.Running() {
		return nil
	}
	_, _ = p.control.Write([]byte{'k'})
	return p.Wait(20 * time.Second)
}

// Abandon lets the guard believe that this process is gone.
func (p *Process) Abandon() error { return p.control.Close() }

// Wait waits until the server and its guard are gone.
func (p *Process) Wait(limit time.Duration) error {
	select {
	case <-p.exited:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s (pid %d, guard %d) did not stop within %s: end it by hand", p.Name, p.PID, p.GuardPID, limit)
	}
}

// failure describes a server that left or did not become ready.
func (p *Process) failure(what error) error {
	return fmt.Errorf("%s: %w; the end of %s:\n%s", p.Name, what, p.LogPath, tailFile(p.LogPath))
}
