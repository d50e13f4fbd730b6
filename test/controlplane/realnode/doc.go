// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package realnode runs a Kubernetes cluster with one real node on this
// machine: the control plane of package controlplane, and kubelet, containerd,
// kube-proxy, Pod networking and CoreDNS. Pods run as they do anywhere, pull
// images from a registry of the cluster's own and get volumes.
//
// All of it runs in mount, network, process, host name and IPC namespaces of
// its own, so it sees and changes nothing of the machine but its folder and one
// control group. From outside it is reached at two ports of the loopback
// interface, the API server's and the registry's, which this process forwards.
// When [Cluster.Stop] is called, when its life is over or when this process
// vanishes, the namespaces' first process is killed, and with it goes the rest.
//
// It takes Linux, root and some packages: see [Supported].
package realnode
