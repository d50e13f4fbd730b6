// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command node is the first process of a real node's namespaces. It makes them
// fit for a node, without a trace outside, and then does three things until it
// is killed, with which everything else there ends: it holds the namespaces,
// takes in orphans, and forwards connections between the node's network and
// Unix sockets in its folder, which can be reached from both sides.
//
// It needs the programs mount and ip.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	var n node
	flag.StringVar(&n.dir, "dir", "", "the node's folder, which all that it keeps goes into")
	flag.StringVar(&n.name, "name", "", "the node's host name")
	flag.StringVar(&n.address, "address", "", "the node's address with its prefix length")
	flag.StringVar(&n.services, "services", "", "the network of the cluster's Services")
	var in, out forwards
	flag.Var(&in, "in", "SOCKET=HOST:PORT: forward connections to a Unix socket in the folder to an address on the node (repeatable)")
	flag.Var(&out, "out", "HOST:PORT=SOCKET: forward connections to an address on the node to a Unix socket in the folder (repeatable)")
	flag.Parse()
	if err := run(n, in, out); err != nil {
		fmt.Fprintf(os.Stderr, "node: %v\n", err)
		os.Exit(1)
	}
}

func run(n node, in, out forwards) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("this program must be the first process of namespaces of its own: run it with guard -isolate")
	}
	// Paths of sockets are relative, since there is little room for them.
	if err := os.Chdir(n.dir); err != nil {
		return fmt.Errorf("go to the node's folder: %w", err)
	}
	if err := n.setUp(); err != nil {
		return err
	}
	// Nothing waits for a process of its own from here on, as orphans are taken
	// in whoever they are.
	for _, f := range out {
		if err := forward("tcp", f.from, "unix", f.to); err != nil {
			return err
		}
	}
	// The last ones tell that the node is set up.
	for _, f := range in {
		if err := forward("unix", f.from, "tcp", f.to); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "node: %s is set up\n", n.name)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received == syscall.SIGTERM {
			return nil
		}
		reap()
	}
	return nil
}

// reap takes in all orphans that have ended.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil && err != syscall.EINTR {
			return
		}
	}
}
