// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// A Cluster is a running control plane. Its methods may be used concurrently.
type Cluster struct {
	options   Options
	programs  map[Program]string
	dir       string
	temporary bool
	deadline  time.Time
	authority *authority
	admin     *rest.Config
	client    kubernetes.Interface

	etcdPort, apiServerPort int

	audit auditLog

	mu        sync.Mutex
	processes []*supervise.Process // in the order in which they were started
	etcd      *supervise.Process
	apiServer *supervise.Process // nil while it is stopped
	stopped   bool
}

// Start makes the programs that the options need and starts a control plane.
// It returns when the API server is ready, and with it the controllers and
// nodes that were asked for. ctx bounds the start only; [Cluster.Stop] ends the
// control plane.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	options = options.withDefaults()
	programs, err := Resolve(ctx, options.Progress, options.Programs()...)
	if err != nil {
		return nil, fmt.Errorf("prepare the control plane's programs: %w", err)
	}
	c := &Cluster{options: options, programs: programs, deadline: time.Now().Add(options.MaxLife)}
	if err := c.makeDir(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the servers were not ready within %s", startTimeout))
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start the control plane: %w", err), c.Stop())
	}
	return c, nil
}

func (c *Cluster) makeDir() error {
	if c.options.Dir == "" {
		dir, err := os.MkdirTemp("", "chartgate-controlplane-")
		if err != nil {
			return fmt.Errorf("create the control plane's folder: %w", err)
		}
		c.dir, c.temporary = dir, true
		return nil
	}
	dir, err := filepath.Abs(c.options.Dir)
	if err != nil {
		return fmt.Errorf("find the control plane's folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the control plane's folder: %w", err)
	}
	c.dir = dir
	return nil
}

func (c *Cluster) start(ctx context.Context) error {
	var err error
	if c.authority, err = newAuthority(); err != nil {
		return err
	}
	var addresses []net.IP
	if c.options.Host != nil {
		addresses = append(addresses, net.ParseIP(c.options.Host.Address))
	}
	if err := c.authority.writeKeys(c.path("pki"), addresses...); err != nil {
		return err
	}
	if err := c.startStorageAndAPI(ctx); err != nil {
		return err
	}
	if err := WriteKubeconfig(c.KubeconfigPath(), c.admin); err != nil {
		return err
	}
	if c.options.Controllers {
		if err := c.startControllers(ctx); err != nil {
			return err
		}
	}
	if c.options.Nodes > 0 {
		return c.startNodes(ctx)
	}
	return nil
}

// Dir returns the folder with the control plane's data, certificates and logs.
func (c *Cluster) Dir() string { return c.dir }

// URL returns the API server's address, which stays the same across
// [Cluster.StopAPIServer] and [Cluster.StartAPIServer].
func (c *Cluster) URL() string { return c.url() }

// Servers returns the running servers in the order of their start.
func (c *Cluster) Servers() []supervise.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	var servers []supervise.Server
	for _, process := range c.processes {
		if process.Running() {
			servers = append(servers, process.Server)
		}
	}
	return servers
}

// Stop stops all servers and waits for their end. Further calls do nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil
	}
	c.stopped = true
	// Clients stop before the servers that they talk to, and those before etcd.
	var problems []error
	for _, process := range slices.Backward(c.processes) {
		problems = append(problems, process.Stop())
	}
	c.processes, c.etcd, c.apiServer = nil, nil, nil
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("stop the control plane: %w", err)
	}
	if c.temporary {
		if err := os.RemoveAll(c.dir); err != nil {
			return fmt.Errorf("remove the control plane's folder: %w", err)
		}
	}
	return nil
}

// launch starts one of the control plane's programs.
func (c *Cluster) launch(program Program, args ...string) (*supervise.Process, error) {
	return c.Supervise(string(program), c.programs[program], args...)
}

// Supervise starts any program as one more server of the cluster, on its host.
// The name is that of its log. The server ends with [Cluster.Stop], and is
// killed if this process vanishes or the cluster's life is over. Supervise does
// not wait until it is ready.
func (c *Cluster) Supervise(name, path string, args ...string) (*supervise.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, fmt.Errorf("start %s: the control plane is stopped", name)
	}
	spec := supervise.Spec{
		Name: name,
		Path: path,
		Args: args,
		// Machines that run tests have memory to spare, and are short of processors.
		Env:       []string{"GOGC=300"},
		GuardPath: c.programs[Guard],
		Dir:       c.dir,
		RemoveDir: c.temporary,
		MaxLife:   time.Until(c.deadline),
	}
	if c.options.Host != nil {
		spec.Enter = c.options.Host.Enter
	}
	process, err := supervise.Start(spec)
	if err != nil {
		return nil, err
	}
	c.processes = append(c.processes, process)
	return process, nil
}

// discard ends servers of a failed attempt.
func (c *Cluster) discard(processes ...*supervise.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ended := range processes {
		if ended == nil {
			continue
		}
		_ = ended.Kill()
		c.processes = slices.DeleteFunc(c.processes, func(p *supervise.Process) bool { return p == ended })
	}
}

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

// usesTakenPort tells whether a server failed because another process took its
// port between its choice and its use.
func usesTakenPort(err error) bool {
	return err != nil && strings.Contains(err.Error(), "address already in use")
}
