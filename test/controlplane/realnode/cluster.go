// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

const (
	// NodeName is the name of the node.
	NodeName = "node1"
	// NodeAddress is the node's address inside the cluster.
	NodeAddress = "10.99.0.1"
	// StorageClass is the name of the default StorageClass. Its volumes are
	// folders on the node and are deleted with their claims.
	StorageClass = "standard"

	// startTimeout bounds a start, without the build of programs. It allows for
	// a machine busy with other tests.
	startTimeout = 4 * time.Minute
)

// Options say how the cluster runs. The zero value is good.
type Options struct {
	// Dir holds data, certificates and logs, and stays after Stop. It must be
	// new or empty of an earlier cluster's data, and lie outside of /etc, /opt,
	// /run, /var/lib and /var/log. By default it is a new temporary folder,
	// which goes with the cluster.
	Dir string

	// Progress receives what a person waits for and how long it took. It
	// defaults to os.Stderr; io.Discard silences it.
	Progress io.Writer

	// MaxLife is how long the cluster lives at most, even if nobody stops it.
	// It defaults to [controlplane.DefaultMaxLife].
	MaxLife time.Duration

	// AuditLog makes the API server record every request, for AuditEvents.
	AuditLog bool

	// APIServerArgs are added to the end of kube-apiserver's arguments.
	APIServerArgs []string
}

// A Cluster is a running cluster. Besides its own methods it has those of the
// control plane, which work from outside of the namespaces: Config, User and
// the kubeconfigs lead to a port of this machine's loopback interface.
type Cluster struct {
	*controlplane.Cluster

	options   Options
	temporary bool
	deadline  time.Time
	programs  map[controlplane.Program]string
	group     controlGroup
	client    kubernetes.Interface

	api         *forwarder
	registry    *imageRegistry
	node        *supervise.Process
	provisioner *provisioner

	stop    sync.Once
	stopErr error
}

// Programs returns what [Start] has built, so that a caller can have
// [controlplane.Resolve] make it beforehand.
func Programs() []controlplane.Program {
	programs := controlplane.Options{Controllers: true}.Programs()
	programs = append(programs, controlplane.NodePrograms()...)
	return append(programs, controlplane.Node, controlplane.Pause)
}

// Start makes the programs that are missing and starts a cluster. It returns
// when the node is Ready and CoreDNS is Available. ctx bounds the start only;
// [Cluster.Stop] ends the cluster.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if err := Supported(); err != nil {
		return nil, err
	}
	if options.Progress == nil {
		options.Progress = os.Stderr
	}
	if options.MaxLife <= 0 {
		options.MaxLife = controlplane.DefaultMaxLife
	}
	programs, err := controlplane.Resolve(ctx, options.Progress, Programs()...)
	if err != nil {
		return nil, fmt.Errorf("prepare the cluster's programs: %w", err)
	}
	c := &Cluster{options: options, programs: programs, deadline: time.Now().Add(options.MaxLife)}
	if err := c.makeDir(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the cluster was not ready within %s", startTimeout))
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a cluster with a real node: %w", err), c.Stop())
	}
	return c, nil
}

// start starts everything, each after what it needs.
func (c *Cluster) start(ctx context.Context) error {
	sweep(c.options.Progress, c.programs[controlplane.Guard])
	var err error
	if c.registry, err = startRegistry(c.path("registry"), c.path(registrySocket)); err != nil {
		return err
	}
	if c.api, err = newForwarder(c.path(apiSocket)); err != nil {
		return err
	}
	// Images take some seconds of one core, during which the servers start.
	pushed := make(chan error, 1)
	go func() { pushed <- c.pushSystemImages(ctx) }()

	steps := newProgress(c.options.Progress)
	for _, step := range []struct {
		done string
		run  func(context.Context) error
	}{
		{"namespaces and network are set up", c.startNode},
		{"the control plane is ready", c.startControlPlane},
		{"images are in the registry", func(context.Context) error { return <-pushed }},
		{"the container runtime is ready", c.startRuntime},
		{"the node is Ready", c.startKubelet},
		{"the cluster's DNS is Available", c.startDNS},
	} {
		if err := step.run(ctx); err != nil {
			return err
		}
		steps.done(step.done)
	}
	return c.startProvisioner(ctx)
}

// startNode makes the namespaces and their first process, and the control
// group for Pods. The first process's guard removes the group in the end.
func (c *Cluster) startNode(ctx context.Context) error {
	c.group = newControlGroup()
	var err error
	c.node, err = supervise.Start(supervise.Spec{
		Name: "node",
		Path: c.programs[controlplane.Node],
		Args: []string{
			"-dir", c.Dir(), "-name", NodeName, "-address", NodeAddress + "/24", "-services", controlplane.ServiceRange,
			"-in", apiSocket + "=127.0.0.1:" + strconv.Itoa(c.api.port),
			"-out", "0.0.0.0:5000=" + registrySocket,
		},
		GuardPath: c.programs[controlplane.Guard],
		GuardArgs: []string{"-isolate", "-cgroup", c.group.name},
		Dir:       c.Dir(),
		RemoveDir: c.temporary,
		MaxLife:   c.options.MaxLife,
	})
	if err != nil {
		return err
	}
	err = supervise.WaitFor(ctx, "the node's namespaces", func(context.Context) error {
		_, err := os.Stat(c.path(apiSocket))
		return err
	}, c.node)
	if err != nil {
		return err
	}
	return c.group.create()
}

func (c *Cluster) startControlPlane(ctx context.Context) error {
	enter, err := c.enter()
	if err != nil {
		return err
	}
	c.Cluster, err = controlplane.Start(ctx, controlplane.Options{
		Dir:           c.Dir(),
		Progress:      c.options.Progress,
		MaxLife:       time.Until(c.deadline),
		AuditLog:      c.options.AuditLog,
		APIServerArgs: c.options.APIServerArgs,
		Host:          &controlplane.Host{Enter: enter, Address: NodeAddress, Port: c.api.port},
	})
	if err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.Config()); err != nil {
		return fmt.Errorf("make the administrator's client: %w", err)
	}
	return nil
}

// Dir returns the folder with the cluster's data, certificates and logs.
func (c *Cluster) Dir() string { return c.options.Dir }

// LogDir returns the folder with the servers' logs, NAME.log. Those of Pods'
// containers are in its folder pods.
func (c *Cluster) LogDir() string { return c.options.Dir }

// Servers returns the running servers, the namespaces' first process before
// all others.
func (c *Cluster) Servers() []supervise.Server {
	servers := c.Cluster.Servers()
	if c.node.Running() {
		servers = append([]supervise.Server{c.node.Server}, servers...)
	}
	return servers
}

// Stop ends everything at once and waits until it is gone. Further calls
// return what the first did.
func (c *Cluster) Stop() error {
	c.stop.Do(func() { c.stopErr = c.end() })
	return c.stopErr
}

func (c *Cluster) end() error {
	var problems []error
	if c.provisioner != nil {
		c.provisioner.stop()
	}
	if c.node != nil {
		problems = append(problems, c.node.Kill())
	}
	if c.Cluster != nil {
		problems = append(problems, c.Cluster.Stop())
	}
	if c.api != nil {
		c.api.close()
	}
	if c.registry != nil {
		c.registry.close()
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("stop the cluster: %w", err)
	}
	if c.temporary {
		if err := os.RemoveAll(c.Dir()); err != nil {
			return fmt.Errorf("remove the cluster's folder: %w", err)
		}
	}
	return nil
}

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.options.Dir}, elements...)...)
}
