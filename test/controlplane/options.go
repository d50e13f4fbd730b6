// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"io"
	"os"
	"time"
)

const (
	// DefaultMaxLife bounds the life of servers that nobody stops.
	DefaultMaxLife = time.Hour

	// startTimeout bounds the wait for the servers, without the build of their
	// programs. It allows for a machine busy with other tests.
	startTimeout = 2 * time.Minute
)

// Options choose what a control plane consists of. The zero value gives etcd
// and kube-apiserver: enough for everything but running workloads.
type Options struct {
	// Controllers adds kube-controller-manager and kube-scheduler. Without
	// them nothing creates Pods, ServiceAccounts or EndpointSlices, nothing is
	// garbage collected, and deleted namespaces stay in Terminating.
	Controllers bool

	// Nodes is the number of simulated nodes, named node-0 and so on. Their
	// Pods become Ready, and those of Jobs complete, without running anything.
	// More than zero implies Controllers.
	Nodes int

	// AuditLog makes the API server record every request, for
	// [Cluster.AuditEvents].
	AuditLog bool

	// Dir holds data, certificates and logs, and stays after Stop. It must not
	// be in use by another control plane. By default it is a new temporary
	// folder, which Stop removes, as do the guards when this process vanishes.
	Dir string

	// Progress receives what a person waits for, such as builds. It defaults to
	// os.Stderr; io.Discard silences it.
	Progress io.Writer

	// MaxLife is how long a server lives at most, even if nobody stops it. It
	// defaults to [DefaultMaxLife].
	MaxLife time.Duration

	// Host tells where the servers run if not directly on this machine. The
	// control plane is then ready for a real node there: see package realnode.
	Host *Host

	// APIServerArgs are added to the end of kube-apiserver's arguments, where
	// they override those given before.
	APIServerArgs []string
}

// A Host is a place other than this machine itself, such as network and mount
// namespaces of their own, in which a control plane's servers run.
type Host struct {
	// Enter is the command that runs another one there (see [supervise.Spec]).
	Enter []string
	// Address is the host's address, at which Pods find the API server.
	Address string
	// Port is the API server's port there. Who starts the control plane
	// forwards the same port of this machine's loopback interface to it, so
	// one URL is right on both sides.
	Port int
}

func (o Options) withDefaults() Options {
	if o.Nodes > 0 || o.Host != nil {
		o.Controllers = true
	}
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	if o.MaxLife <= 0 {
		o.MaxLife = DefaultMaxLife
	}
	return o
}

// Programs returns what [Start] needs for the options, so that a caller can
// have [Resolve] make it beforehand.
func (o Options) Programs() []Program {
	o = o.withDefaults()
	programs := []Program{Etcd, KubeAPIServer}
	if o.Controllers {
		programs = append(programs, KubeControllerManager, KubeScheduler)
	}
	if o.Nodes > 0 {
		programs = append(programs, Kwok)
	}
	return append(programs, Guard)
}
