// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command guard runs one server and makes sure that it never outlives the
// process that asked for it.
//
// The asking process holds the write end of guard's standard input. The byte s
// there asks for a clean stop (SIGTERM, then SIGKILL after the grace period),
// any other byte for an immediate one. The end of input means that the asking
// process is gone: guard kills the server and removes the folder of -remove.
// It also kills the server when its life is over, and on Linux the kernel kills
// the server if guard itself is killed.
//
// With -isolate, on Linux, the server gets mount, network, process, host name and
// IPC namespaces of its own. With -cgroup NAME guard removes the control group
// of that name, in every hierarchy, when the server is gone.
//
// Guard prints the server's process id as its first line of standard output
// and leaves with the server's exit code.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Process death signals follow the thread that forked, so the main goroutine
// keeps the main thread, which lives as long as the process.
func init() { runtime.LockOSThread() }

// controlGroup is the control group to remove when the server is gone.
var controlGroup string

func main() {
	life := flag.Duration("max-life", time.Hour, "kill the server after this long")
	grace := flag.Duration("grace", 5*time.Second, "time between SIGTERM and SIGKILL")
	remove := flag.String("remove", "", "folder to remove when the asking process vanishes")
	isolate := flag.Bool("isolate", false, "run the server in namespaces of its own")
	flag.StringVar(&controlGroup, "cgroup", "", "control group to remove when the server is gone")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "guard: no program to run; usage: guard [flags] -- PROGRAM [ARGUMENT]...")
		os.Exit(2)
	}

	// A Ctrl-C or a closed terminal is for the asking process to handle.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)

	server := exec.Command(flag.Arg(0), flag.Args()[1:]...)
	server.Stdout, server.Stderr = os.Stderr, os.Stderr
	var err error
	server.SysProcAttr, err = attributes(*isolate)
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "guard: start %s: %v\n", flag.Arg(0), err)
		os.Exit(127)
	}
	fmt.Println(server.Process.Pid)

	exited := make(chan error, 1)
	go func() { exited <- server.Wait() }()
	stop, kill, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go watchInput(stop, kill, gone)

	expired := time.NewTimer(*life)
	for {
		select {
		case err := <-exited:
			leave(err)
		case <-stop:
			stop = nil
			terminateServer(server, *grace)
		case <-kill:
			kill = nil
			_ = server.Process.Kill()
		case <-terminate:
			terminateServer(server, *grace)
		case <-expired.C:
			fmt.Fprintf(os.Stderr, "guard: %s reached the end of its life of %s\n", flag.Arg(0), *life)
			_ = server.Process.Kill()
		case <-gone:
			_ = server.Process.Kill()
			err := <-exited
			removeControlGroup(controlGroup)
			removeFolder(*remove)
			leave(err)
		}
	}
}

// watchInput closes the channel of what it reads first. After an order to stop
// the end of input means nothing more: the asking process may leave early.
func watchInput(stop, kill, gone chan<- struct{}) {
	order := make([]byte, 1)
	n, _ := os.Stdin.Read(order)
	switch {
	case n == 0:
		close(gone)
	case order[0] == 's':
		close(stop)
	default:
		close(kill)
	}
}

func terminateServer(server *exec.Cmd, grace time.Duration) {
	_ = server.Process.Signal(syscall.SIGTERM)
	time.AfterFunc(grace, func() { _ = server.Process.Kill() })
}

// removeFolder tries for a few seconds, since the guards of one control plane
// share a folder and its other servers may still be writing their last lines.
func removeFolder(path string) {
	if path == "" {
		return
	}
	for range 50 {
		if err := os.RemoveAll(path); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// leave ends guard after the server.
func leave(err error) {
	removeControlGroup(controlGroup)
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit) && exit.Exited():
		os.Exit(exit.ExitCode())
	case errors.As(err, &exit):
		fmt.Fprintf(os.Stderr, "guard: %s: %v\n", flag.Arg(0), err)
		os.Exit(137)
	default:
		fmt.Fprintf(os.Stderr, "guard: wait for %s: %v\n", flag.Arg(0), err)
		os.Exit(1)
	}
}
