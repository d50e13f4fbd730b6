// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs a real Kubernetes control plane on the loopback
// interface: etcd and kube-apiserver, and on demand kube-controller-manager,
// kube-scheduler and nodes simulated by kwok.
//
// Its programs are built once from their Go modules into the user's cache
// folder (see [Resolve]). Every server runs under a guard process that kills
// it as soon as the process that started it is gone, so a test that panics, is
// interrupted or is killed leaves nothing behind.
//
// Tests of a package share one control plane and isolate themselves by
// namespaces:
//
//	func TestMain(m *testing.M) {
//		os.Exit(controlplane.Main(m, controlplane.Options{Controllers: true, Nodes: 1}))
//	}
//
//	func TestInstall(t *testing.T) {
//		cluster := controlplane.Shared(t)
//		namespace := cluster.Namespace(t)
//		...
//	}
//
// Package realnode adds a node that really runs Pods, where that is possible.
//
// The command in cmd/cluster offers the same from a terminal.
package controlplane
