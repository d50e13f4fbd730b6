// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "syscall"

// dieWithParent has no kernel support here: guard's own watch is the only one.
func dieWithParent() *syscall.SysProcAttr { return nil }
