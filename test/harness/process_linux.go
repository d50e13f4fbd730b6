// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import "syscall"

// dieWithParent makes the kernel kill a child when the thread that started it
// is gone, even if the test binary was killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
