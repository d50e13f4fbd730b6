// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// A node is what the namespaces are made fit for.
type node struct {
	dir, name, address, services string
}

// overlaid are the folders of the machine that a node's programs write to.
// What they write is held in memory and gone with the node.
var overlaid = []string{"/etc", "/opt", "/var/lib", "/var/log"}

// kept are the folders of larger data, and of what a person wants to see. They
// lie in the node's folder, and appear where programs expect them: a socket's
// path in them must be short.
var kept = map[string]string{
	"containerd": "/var/lib/containerd",
	"kubelet":    "/var/lib/kubelet",
	"pods":       "/var/log/pods",
}

// kernelSettings are those that kubelet insists on and that belong to the whole
// machine. It is shown them as it wants them, so that it changes none.
var kernelSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

func (n node) path(elements ...string) string {
	return filepath.Join(append([]string{n.dir}, elements...)...)
}

func (n node) setUp() error {
	for _, step := range []func() error{n.setUpMounts, n.setUpKernelSettings, n.setUpNetwork} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := syscall.Sethostname([]byte(n.name)); err != nil {
		return fmt.Errorf("set the host name %s: %w", n.name, err)
	}
	return nil
}

func (n node) setUpMounts() error {
	// Nothing must get out to the machine's own mounts; below here, containers
	// see what kubelet mounts for them.
	if err := mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return err
	}
	upper := n.path("overlay")
	if err := os.MkdirAll(upper, 0o755); err != nil {
		return err
	}
	if err := mount("tmpfs", upper, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, folder := range overlaid {
		name := filepath.Join(upper, strings.ReplaceAll(folder[1:], "/", "-"))
		for _, sub := range []string{"upper", "work"} {
			if err := os.MkdirAll(filepath.Join(name, sub), 0o755); err != nil {
				return err
			}
		}
		options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", folder, name, name)
		if err := mount("overlay", folder, "overlay", 0, options); err != nil {
			return err
		}
	}
	if err := mount("tmpfs", "/run", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	for folder, target := range kept {
		for _, path := range []string{n.path(folder), target} {
			if err := os.MkdirAll(path, 0o755); err != nil {
				return err
			}
		}
		if err := mount(n.path(folder), target, "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

func (n node) setUpKernelSettings() error {
	for name, value := range kernelSettings {
		setting := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(setting); err != nil {
			continue // kubelet skips what this kernel doesn't have
		}
		shown := filepath.Join("/run/kernel-settings", name)
		if err := os.MkdirAll(filepath.Dir(shown), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(shown, []byte(value+"\n"), 0o444); err != nil {
			return err
		}
		if err := mount(shown, setting, "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// setUpNetwork gives the node an address, on an interface that leads nowhere.
// There is no default route: what leads out of the cluster fails at once. But
// what the node itself sends to a Service must have a route before kube-proxy's
// rules send it elsewhere.
func (n node) setUpNetwork() error {
	for _, arguments := range []string{
		"link set lo up",
		"link add node0 type veth peer name node0-end",
		"addr add " + n.address + " dev node0",
		"link set node0-end up",
		"link set node0 up",
		"route add " + n.services + " dev node0",
	} {
		output, err := exec.Command("ip", strings.Fields(arguments)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", arguments, err, strings.TrimSpace(string(output)))
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1\n"), 0o644); err != nil {
		return fmt.Errorf("let the node forward what its Pods send: %w", err)
	}
	return nil
}

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := syscall.Mount(source, target, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s on %s (type %q, options %q): %w", source, target, kind, options, err)
	}
	return nil
}
