// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package realnode

// checkKernel is never asked here.
func checkKernel() error { return nil }

func onOverlay(string) bool { return false }
