// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// runtimeSocket is where containerd listens, inside the node's namespaces.
const runtimeSocket = "/run/containerd/containerd.sock"

// runtimeConfig is containerd's configuration. Nothing of it may change what
// belongs to the whole machine, such as the AppArmor profiles that are loaded.
const runtimeConfig = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
[grpc]
  address = %[1]q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %[2]q
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %[3]q
    conf_dir = %[4]q
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = %[5]q
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
`

// networkConfig routes every Pod through the node, and not over a bridge: what
// Pods send each other through Services then passes kube-proxy's rules in both
// directions, whatever the kernel's settings for bridges.
const networkConfig = `{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {
      "type": "ptp",
      "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": %q}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

// startRuntime starts containerd and waits until it has its socket.
func (c *Cluster) startRuntime(ctx context.Context) error {
	plugins, err := pluginDir()
	if err != nil {
		return err
	}
	program, err := lookUp("containerd")
	if err != nil {
		return err
	}
	snapshotter := "overlayfs"
	if onOverlay(c.Dir()) {
		snapshotter = "native" // an overlay can't be laid over an overlay
	}
	config := c.path("containerd.toml")
	for file, content := range map[string]string{
		config:                            fmt.Sprintf(runtimeConfig, runtimeSocket, pauseImage, plugins, c.path("cni"), snapshotter),
		c.path("cni", "10-pods.conflist"): fmt.Sprintf(networkConfig, nodeNetwork),
		c.path("resolv.conf"):             "",
	} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			return fmt.Errorf("write the container runtime's configuration: %w", err)
		}
	}
	containerd, err := c.Supervise("containerd", program, "--config", config)
	if err != nil {
		return err
	}
	return supervise.WaitFor(ctx, "the container runtime", func(context.Context) error {
		// The socket is seen through the process's own view of the files.
		_, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", containerd.PID, runtimeSocket))
		if errors.Is(err, os.ErrNotExist) {
			return errors.New("it does not listen yet")
		}
		return err
	}, containerd)
}
