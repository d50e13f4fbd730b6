// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// overlayMagic is how statfs calls an overlay file system.
const overlayMagic = 0x794c7630

// checkKernel tells whether this process may do what a node takes, which root
// of a container may not.
func checkKernel() error {
	probe := exec.Command("mount", "-t", "tmpfs", "tmpfs", os.TempDir())
	probe.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Unshareflags: syscall.CLONE_NEWNS, // makes all mounts private first
	}
	if output, err := probe.CombinedOutput(); err != nil {
		return fmt.Errorf("a real node needs namespaces and mounts of its own, which this system denies: in a container, run it with --privileged: %w\n%s", err, output)
	}
	groups, err := readHierarchies()
	if err != nil {
		return err
	}
	return groups.check()
}

// onOverlay tells whether a folder lies on an overlay file system, as the files
// of a container do.
func onOverlay(dir string) bool {
	var stat syscall.Statfs_t
	return syscall.Statfs(dir, &stat) == nil && stat.Type == overlayMagic
}
