// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// dieWithParent makes the kernel end a child when the demo is gone, even if that was killed. A
// process group of its own keeps the terminal's Ctrl-C from it: the demo stops it in order.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
