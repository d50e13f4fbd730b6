// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// packaged are the programs that come as packages.
var packaged = []string{"containerd", "containerd-shim-runc-v2", "runc", "nft", "iptables", "ip", "mount", "umount", "nsenter", "env"}

// plugins are the network plugins that Pods need, and pluginDirs the folders
// that systems keep them in.
var (
	plugins    = []string{"ptp", "portmap", "host-local", "loopback"}
	pluginDirs = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}
)

// Supported returns nil if a cluster can run on this machine, and else an error
// that says what it lacks.
func Supported() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a real node needs Linux, and this is %s: use simulated nodes, or a virtual machine", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New("a real node needs root: run this again as root, or use simulated nodes")
	}
	var missing []string
	for _, program := range packaged {
		if _, err := lookUp(program); err != nil {
			missing = append(missing, program)
		}
	}
	if _, err := pluginDir(); err != nil {
		missing = append(missing, err.Error())
	}
	if len(missing) > 0 {
		return fmt.Errorf("a real node needs programs that this machine lacks: run hack/e2e-deps.sh to install them\nmissing: %s",
			strings.Join(missing, ", "))
	}
	return checkKernel()
}

// lookUp finds a program where the node's programs find it.
func lookUp(program string) (string, error) {
	for folder := range strings.SplitSeq(searchPath, ":") {
		path := filepath.Join(folder, program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path, nil
		}
	}
	return "", &exec.Error{Name: program, Err: exec.ErrNotFound}
}

// pluginDir returns the folder that has all network plugins.
func pluginDir() (string, error) {
	for _, folder := range pluginDirs {
		complete := true
		for _, plugin := range plugins {
			if _, err := os.Stat(filepath.Join(folder, plugin)); err != nil {
				complete = false
			}
		}
		if complete {
			return folder, nil
		}
	}
	return "", fmt.Errorf("the network plugins %s in one of %s", strings.Join(plugins, ", "), strings.Join(pluginDirs, ", "))
}
