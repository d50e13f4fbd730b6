// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// startControllers starts kube-controller-manager and kube-scheduler and waits
// for the first visible work: the default ServiceAccount.
func (c *Cluster) startControllers(ctx context.Context) error {
	manager, err := c.startClient(KubeControllerManager, "system:kube-controller-manager", func(kubeconfig string) []string {
		return []string{
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=" + loopback,
			"--secure-port=0",
			"--leader-elect=false",
			"--use-service-account-credentials=true",
			"--service-account-private-key-file=" + c.path("pki", "sa.key"),
			"--root-ca-file=" + c.path("pki", "ca.crt"),
			"--cluster-signing-cert-file=" + c.path("pki", "ca.crt"),
			"--cluster-signing-key-file=" + c.path("pki", "ca.key"),
			"--allocate-node-cidrs=true",
			"--cluster-cidr=" + PodRange,
			"--service-cluster-ip-range=" + ServiceRange,
			"--controllers=*,bootstrapsigner,tokencleaner",
			"--kube-api-qps=500",
			"--kube-api-burst=1000",
		}
	})
	if err != nil {
		return err
	}
	scheduler, err := c.startClient(KubeScheduler, "system:kube-scheduler", func(kubeconfig string) []string {
		return []string{
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=" + loopback,
			"--secure-port=0",
			"--leader-elect=false",
			"--kube-api-qps=500",
			"--kube-api-burst=1000",
		}
	})
	if err != nil {
		return err
	}
	return supervise.WaitFor(ctx, "the default ServiceAccount", func(ctx context.Context) error {
		return c.hasServiceAccount(ctx, metav1.NamespaceDefault)
	}, manager, scheduler)
}

// hasServiceAccount succeeds when Pods can be created in a namespace.
func (c *Cluster) hasServiceAccount(ctx context.Context, namespace string) error {
	_, err := c.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
	return err
}

// startClient starts a server that works as a user of the API.
func (c *Cluster) startClient(program Program, user string, arguments func(kubeconfig string) []string, groups ...string) (*supervise.Process, error) {
	kubeconfig, err := c.UserKubeconfig(string(program), user, groups...)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(c.path(string(program) + ".log")); err != nil {
		return nil, fmt.Errorf("remove the old log of %s: %w", program, err)
	}
	return c.launch(program, append([]string{"--kubeconfig=" + kubeconfig}, arguments(kubeconfig)...)...)
}
