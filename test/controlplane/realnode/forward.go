// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// apiSocket is the Unix socket, in the cluster's folder, that the node forwards
// to its API server.
const apiSocket = "api.sock"

// A forwarder takes connections at a port of the loopback interface to a Unix
// socket.
type forwarder struct {
	port     int
	socket   string
	listener net.Listener
}

// newForwarder starts forwarding from a free port. The socket need not be
// there yet: until then connections are closed at once.
func newForwarder(socket string) (*forwarder, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port for the API server: %w", err)
	}
	f := &forwarder{socket: socket, listener: listener, port: listener.Addr().(*net.TCPAddr).Port}
	go func() {
		for {
			caller, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go f.connect(caller)
		}
	}()
	return f, nil
}

func (f *forwarder) close() { _ = f.listener.Close() }

// connect passes on what comes until both sides have ended.
func (f *forwarder) connect(caller net.Conn) {
	defer caller.Close()
	called, err := dialUnix(f.socket)
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

// dialUnix and listenUnix reach the socket through a descriptor of its folder,
// because a socket's path has room for some hundred characters only.
func dialUnix(path string) (net.Conn, error) {
	short, release, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer release()
	return net.Dial("unix", short)
}

func listenUnix(path string) (net.Listener, error) {
	short, release, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer release()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // the short path is none by then
	return listener, nil
}

func shortPath(path string) (short string, release func(), err error) {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	short = filepath.Join("/proc/self/fd", strconv.Itoa(int(folder.Fd())), filepath.Base(path))
	return short, func() { _ = folder.Close() }, nil
}
