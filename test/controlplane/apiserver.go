// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"

	"k8s.io/client-go/kubernetes"

	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

const (
	// ServiceRange is the network of Services.
	ServiceRange = "10.96.0.0/16"
	// PodRange is the network of Pods on real nodes.
	PodRange = "10.244.0.0/16"

	loopback       = "127.0.0.1"
	frontProxyName = "front-proxy-client"
	tokenIssuer    = "https://kubernetes.default.svc.cluster.local"

	// portAttempts bounds the retries after another process took a port.
	portAttempts = 5
)

// startStorageAndAPI starts etcd and kube-apiserver on free ports.
func (c *Cluster) startStorageAndAPI(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		err := c.tryStorageAndAPI(ctx)
		if err == nil || attempt == portAttempts || !usesTakenPort(err) {
			return err
		}
	}
}

func (c *Cluster) tryStorageAndAPI(ctx context.Context) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	c.etcdPort, c.apiServerPort = ports[0], ports[1]
	if c.options.Host != nil {
		c.apiServerPort = c.options.Host.Port
	}
	if c.admin, err = c.User("admin", "system:masters"); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.admin); err != nil {
		return fmt.Errorf("make the administrator's client: %w", err)
	}
	for _, program := range []Program{Etcd, KubeAPIServer} {
		if err := os.RemoveAll(c.path(string(program) + ".log")); err != nil {
			return fmt.Errorf("remove the old log: %w", err)
		}
	}
	etcd, err := c.launch(Etcd, c.etcdArguments()...)
	if err != nil {
		return err
	}
	if err := c.runAPIServer(ctx, etcd); err != nil {
		c.discard(etcd)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.etcd = etcd
	return nil
}

func (c *Cluster) etcdArguments() []string {
	return []string{
		"--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + c.etcdURL(),
		"--advertise-client-urls=" + c.etcdURL(),
		"--listen-peer-urls=http://" + loopback + ":0",
		"--unsafe-no-fsync",
		"--log-level=warn",
	}
}

func (c *Cluster) apiServerArguments() ([]string, error) {
	pki := func(name string) string { return c.path("pki", name) }
	arguments := []string{
		"--etcd-servers=" + c.etcdURL(),
		fmt.Sprintf("--secure-port=%d", c.apiServerPort),
		"--tls-cert-file=" + pki("apiserver.crt"),
		"--tls-private-key-file=" + pki("apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--service-account-key-file=" + pki("sa.pub"),
		"--service-account-signing-key-file=" + pki("sa.key"),
		"--service-account-issuer=" + tokenIssuer,
		"--service-cluster-ip-range=" + ServiceRange,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--kubelet-client-certificate=" + pki("kubelet-client.crt"),
		"--kubelet-client-key=" + pki("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file=" + pki("ca.crt"),
		"--requestheader-allowed-names=" + frontProxyName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + pki("front-proxy.crt"),
		"--proxy-client-key-file=" + pki("front-proxy.key"),
		"--enable-aggregator-routing=true",
		"--max-requests-inflight=1000",
		"--max-mutating-requests-inflight=500",
	}
	if host := c.options.Host; host != nil {
		arguments = append(arguments, "--bind-address=0.0.0.0", "--advertise-address="+host.Address)
	} else {
		arguments = append(arguments, "--bind-address="+loopback, "--advertise-address="+loopback,
			// Nothing could use the endpoint of the Service "kubernetes": no
			// network leads from a simulated Pod to the loopback interface.
			"--endpoint-reconciler-type=none")
	}
	if c.options.AuditLog {
		policy := c.path("audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o644); err != nil {
			return nil, fmt.Errorf("write the audit policy: %w", err)
		}
		arguments = append(arguments,
			"--audit-policy-file="+policy,
			"--audit-log-path="+c.AuditLogPath(),
			"--audit-log-maxsize=4096")
	}
	return append(arguments, c.options.APIServerArgs...), nil
}

// StartAPIServer starts the API server again after [Cluster.StopAPIServer], on
// the same port, and returns when it is ready. It does nothing if the API
// server is running.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	c.mu.Lock()
	etcd := c.etcd
	running := c.apiServer != nil && c.apiServer.Running()
	c.mu.Unlock()
	if running {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("it was not ready within %s", startTimeout))
	defer cancel()
	if err := c.runAPIServer(ctx, etcd); err != nil {
		return fmt.Errorf("start the API server again: %w", err)
	}
	return nil
}

// runAPIServer starts the API server and waits until it is ready.
func (c *Cluster) runAPIServer(ctx context.Context, etcd *supervise.Process) error {
	arguments, err := c.apiServerArguments()
	if err != nil {
		return err
	}
	server, err := c.launch(KubeAPIServer, arguments...)
	if err != nil {
		return err
	}
	if err := supervise.WaitFor(ctx, "the API server", c.ready, server, etcd); err != nil {
		c.discard(server)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apiServer = server
	return nil
}

// StopAPIServer stops the API server at once, so that its address refuses
// connections; etcd keeps the data. It does nothing if the API server is not
// running.
func (c *Cluster) StopAPIServer() error {
	c.mu.Lock()
	server := c.apiServer
	c.apiServer = nil
	c.mu.Unlock()
	if server == nil {
		return nil
	}
	if err := server.Kill(); err != nil {
		return fmt.Errorf("stop the API server: %w", err)
	}
	c.discard(server)
	return nil
}

func (c *Cluster) ready(ctx context.Context) error {
	return c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

func (c *Cluster) etcdURL() string {
	return fmt.Sprintf("http://%s:%d", loopback, c.etcdPort)
}

func (c *Cluster) url() string {
	return fmt.Sprintf("https://%s:%d", loopback, c.apiServerPort)
}

// freePorts returns different TCP ports that are free on the loopback
// interface at this moment. They lie below the ranges from which systems take
// the ports of outgoing connections, so that a stopped API server finds its
// port free again.
func freePorts(n int) ([]int, error) {
	const first, count, attempts = 20000, 10000, 1000
	ports := make([]int, 0, n)
	var last error
	for range attempts {
		if len(ports) == n {
			return ports, nil
		}
		port := first + rand.IntN(count)
		listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", loopback, port))
		if err != nil {
			last = err
			continue
		}
		defer listener.Close()
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("find %d free ports from %d to %d: %w", n, first, first+count-1, last)
}
