// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// namespaces are those of a server that is isolated.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// attributes asks the kernel to kill the server when guard dies, and for
// namespaces of its own if it is isolated. It is then the first process of its
// process namespace, so all others there end with it.
func attributes(isolate bool) (*syscall.SysProcAttr, error) {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if isolate {
		attributes.Cloneflags = namespaces
	}
	return attributes, nil
}
