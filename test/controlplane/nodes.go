// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// stages tells kwok how simulated nodes and their Pods behave.
//
//go:embed stages.yaml
var stages []byte

// Kwok leaves nodes without this annotation alone.
const (
	simulatedKey   = "kwok.x-k8s.io/node"
	simulatedValue = "fake"
)

// startNodes starts kwok, creates the simulated nodes and waits until they are
// Ready.
func (c *Cluster) startNodes(ctx context.Context) error {
	config := c.path("kwok.yaml")
	if err := os.WriteFile(config, stages, 0o644); err != nil {
		return fmt.Errorf("write kwok's configuration: %w", err)
	}
	kwok, err := c.startClient(Kwok, "kwok", func(string) []string {
		return []string{
			"--config=" + config,
			"--node-lease-duration-seconds=40", // without leases the nodes are taken for dead after a while
			"--manage-all-nodes=false",
			"--manage-nodes-with-annotation-selector=" + simulatedKey + "=" + simulatedValue,
		}
	}, "system:masters")
	if err != nil {
		return err
	}
	version, err := c.client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("ask for the API server's version: %w", err)
	}
	for i := range c.options.Nodes {
		node := simulatedNode(i, version.GitVersion)
		_, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the node %s: %w", node.Name, err)
		}
	}
	return supervise.WaitFor(ctx, "the simulated nodes", c.nodesReady, kwok)
}

func simulatedNode(index int, version string) *corev1.Node {
	name := fmt.Sprintf("node-%d", index)
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("32"),
		corev1.ResourceMemory:           resource.MustParse("128Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("512Gi"),
		corev1.ResourcePods:             resource.MustParse("250"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{simulatedKey: simulatedValue},
			Labels: map[string]string{
				corev1.LabelHostname:   name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: runtime.GOARCH,
			},
		},
		Status: corev1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", index/250, index%250+1)},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture:            runtime.GOARCH,
				OperatingSystem:         "linux",
				OSImage:                 "simulated",
				KernelVersion:           "simulated",
				ContainerRuntimeVersion: "simulated",
				KubeletVersion:          version,
			},
		},
	}
}

func (c *Cluster) nodesReady(ctx context.Context) error {
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ready := 0
	for _, node := range nodes.Items {
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	if ready < c.options.Nodes {
		return fmt.Errorf("%d of %d nodes are Ready", ready, c.options.Nodes)
	}
	return nil
}
