// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package harness

import "syscall"

// dieWithParent keeps the terminal's Ctrl-C from a child: the test ends it.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
