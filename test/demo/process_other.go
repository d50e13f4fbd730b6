// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "syscall"

// dieWithParent keeps the terminal's Ctrl-C from a child: the demo stops it in order.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
