// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnfitFoldersAreRefused(t *testing.T) {
	used := t.TempDir()
	if err := os.Mkdir(filepath.Join(used, "etcd"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/dev/shm", link); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ dir, want string }{
		"in a folder that the node hides": {link, "/dev"},
		"of an earlier cluster":           {used, "earlier cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Cluster{options: Options{Dir: test.dir}}
			if err := c.makeDir(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestSocketsInDeepFolders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep", 50))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "a.sock")
	listener, err := listenUnix(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if caller, err := listener.Accept(); err == nil {
			_, _ = caller.Write([]byte("hello"))
			_ = caller.Close()
		}
	}()
	f, err := newForwarder(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	caller, err := net.Dial("tcp", f.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	answer := make([]byte, 10)
	if n, err := caller.Read(answer); err != nil || string(answer[:n]) != "hello" {
		t.Errorf("got %q, %v", answer[:n], err)
	}
}
