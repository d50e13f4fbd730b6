// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

const (
	nodeNetwork = "10.244.0.0/24" // what kube-controller-manager gives to the first node
	dnsAddress  = "10.96.0.10"
)

// startKubelet starts kubelet and kube-proxy and waits until the node is Ready.
func (c *Cluster) startKubelet(ctx context.Context) error {
	kubelet, err := c.startAgent(controlplane.Kubelet, c.kubeletConfig(), "system:node:"+NodeName, []string{"system:nodes"},
		"--hostname-override="+NodeName, "--node-ip="+NodeAddress, "--cert-dir=/var/lib/kubelet/pki")
	if err != nil {
		return err
	}
	proxy, err := c.startAgent(controlplane.KubeProxy, c.kubeProxyConfig(), "system:kube-proxy", nil)
	if err != nil {
		return err
	}
	return supervise.WaitFor(ctx, "the node", func(ctx context.Context) error {
		node, err := c.client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				if condition.Status == corev1.ConditionTrue {
					return nil
				}
				return fmt.Errorf("it is not Ready: %s", condition.Message)
			}
		}
		return errors.New("it has not reported yet")
	}, kubelet, proxy)
}

// startAgent starts one of the node's programs with a configuration file, as a
// user of the API.
func (c *Cluster) startAgent(program controlplane.Program, config map[string]any, user string, groups []string, arguments ...string) (*supervise.Process, error) {
	kubeconfig, err := c.UserKubeconfig(string(program), user, groups...)
	if err != nil {
		return nil, err
	}
	// kube-proxy takes the kubeconfig from its configuration, kubelet from a flag.
	if program == controlplane.KubeProxy {
		config["clientConnection"] = map[string]any{"kubeconfig": kubeconfig}
	} else {
		arguments = append(arguments, "--kubeconfig="+kubeconfig)
	}
	content, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the configuration of %s: %w", program, err)
	}
	file := c.path(string(program) + ".json")
	if err := os.WriteFile(file, content, 0o644); err != nil {
		return nil, fmt.Errorf("write the configuration of %s: %w", program, err)
	}
	return c.Supervise(string(program), c.programs[program], append(arguments, "--config="+file)...)
}

func (c *Cluster) kubeletConfig() map[string]any {
	return map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + runtimeSocket,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": c.path("pki", "ca.crt")},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"clusterDomain": "cluster.local",
		"clusterDNS":    []string{dnsAddress},
		// Names outside of the cluster lead nowhere.
		"resolvConf": c.path("resolv.conf"),

		"cgroupDriver":           "cgroupfs",
		"cgroupRoot":             "/" + c.group.name,
		"cgroupsPerQOS":          true,
		"enforceNodeAllocatable": []string{"pods"},
		"failCgroupV1":           false,
		// Neither needs a right that a container of a build machine may lack.
		"oomScoreAdj": 0,
		"failSwapOn":  false,
		// By default it would be made in /usr.
		"volumePluginDir": "/var/lib/kubelet/volume-plugins",

		// A full disk of the machine is no matter of the cluster's.
		"evictionHard": map[string]any{
			"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%",
		},
		"imageGCHighThresholdPercent": 100,
		"imageGCLowThresholdPercent":  99,
		"nodeStatusUpdateFrequency":   "4s",
		"serializeImagePulls":         false,
	}
}

func (c *Cluster) kubeProxyConfig() map[string]any {
	return map[string]any{
		"apiVersion":       "kubeproxy.config.k8s.io/v1alpha1",
		"kind":             "KubeProxyConfiguration",
		"mode":             "nftables",
		"clusterCIDR":      controlplane.PodRange,
		"hostnameOverride": NodeName,
		"bindAddress":      "0.0.0.0",
		"oomScoreAdj":      0,
		// These limits belong to the whole machine.
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	}
}
