// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
)

// A forwarding takes connections at one address to another one.
type forwarding struct{ from, to string }

// forwards is a repeatable flag FROM=TO.
type forwards []forwarding

func (f *forwards) String() string { return fmt.Sprint(*f) }

func (f *forwards) Set(value string) error {
	from, to, found := strings.Cut(value, "=")
	if !found {
		return errors.New("it must be FROM=TO")
	}
	*f = append(*f, forwarding{from, to})
	return nil
}

// forward listens, and connects whoever calls with the other address, until
// the end of the program.
func forward(network, address, toNetwork, toAddress string) error {
	listener, err := net.Listen(network, address)
	if err != nil {
		return fmt.Errorf("listen for connections to forward: %w", err)
	}
	go func() {
		for {
			caller, err := listener.Accept()
			if err != nil {
				fmt.Fprintf(os.Stderr, "node: forward from %s: %v\n", address, err)
				return
			}
			go connect(caller, toNetwork, toAddress)
		}
	}()
	return nil
}

// connect passes on what comes until both sides have ended.
func connect(caller net.Conn, network, address string) {
	defer caller.Close()
	called, err := net.Dial(network, address)
	if err != nil {
		return // the caller sees the end of its connection
	}
	defer called.Close()
	var both sync.WaitGroup
	both.Go(func() { pass(called, caller) })
	both.Go(func() { pass(caller, called) })
	both.Wait()
}

// pass copies one direction and passes its end on.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
