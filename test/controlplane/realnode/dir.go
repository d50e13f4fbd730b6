// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// hidden are the folders that the node's namespaces have something else at.
var hidden = []string{"/etc", "/opt", "/run", "/var/run", "/var/lib", "/var/log", "/proc", "/sys", "/dev"}

// makeDir makes the cluster's folder and those in it that nothing else makes.
func (c *Cluster) makeDir() error {
	if c.options.Dir == "" {
		dir, err := os.MkdirTemp("", "chartgate-cluster-")
		if err != nil {
			return fmt.Errorf("create the cluster's folder: %w", err)
		}
		c.options.Dir, c.temporary = dir, true
	}
	dir, err := filepath.Abs(c.options.Dir)
	if err != nil {
		return fmt.Errorf("find the cluster's folder: %w", err)
	}
	for _, folder := range []string{dir, filepath.Join(dir, "tmp"), filepath.Join(dir, "cni"), filepath.Join(dir, "registry")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("create the cluster's folder: %w", err)
		}
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return fmt.Errorf("find the cluster's folder: %w", err)
	}
	for _, folder := range hidden {
		if strings.HasPrefix(dir+"/", folder+"/") {
			return fmt.Errorf("the cluster's folder %s lies in %s, which the node has as its own: choose another folder, such as one in /tmp", dir, folder)
		}
	}
	// What an earlier cluster stored fits neither the new certificates nor the new Pods.
	if _, err := os.Stat(filepath.Join(dir, "etcd")); err == nil {
		return fmt.Errorf("%s holds the data of an earlier cluster: remove it or choose another folder", dir)
	}
	c.options.Dir = dir
	return nil
}
