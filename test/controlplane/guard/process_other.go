// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"errors"
	"syscall"
)

// attributes has no kernel support here: guard's own watch is the only one.
func attributes(isolate bool) (*syscall.SysProcAttr, error) {
	if isolate {
		return nil, errors.New("-isolate needs Linux")
	}
	return nil, nil
}

func removeControlGroup(string) {}
