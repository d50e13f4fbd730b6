// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"strconv"
)

// searchPath is where the node's programs find others. Administrators' folders
// are not on every user's.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// enter returns the command that runs another in the node's namespaces, with an
// environment of its own and the cluster's folder as its working folder.
func (c *Cluster) enter() ([]string, error) {
	nsenter, err := lookUp("nsenter")
	if err != nil {
		return nil, fmt.Errorf("enter the node's namespaces: %w", err)
	}
	return []string{
		nsenter, "--target", strconv.Itoa(c.node.PID), "--mount", "--net", "--pid", "--uts", "--ipc", "--",
		"env", "-i", "-C", c.Dir(), "PATH=" + searchPath, "HOME=/root", "TMPDIR=" + c.path("tmp"),
	}, nil
}
