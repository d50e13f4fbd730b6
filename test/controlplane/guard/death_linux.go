// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// dieWithParent asks the kernel to kill the server when guard dies.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
