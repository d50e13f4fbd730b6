// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// removeControlGroup removes a control group and all below it in every
// hierarchy. Processes that were just killed may hold it for a moment.
func removeControlGroup(name string) {
	if name == "" {
		return
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		fmt.Fprintf(os.Stderr, "guard: remove the control group %s: %v\n", name, err)
		return
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != "cgroup" && fields[2] != "cgroup2" {
			continue
		}
		group := filepath.Join(fields[1], name)
		err := removeTree(group)
		for range 100 {
			if err == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
			err = removeTree(group)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "guard: remove the control group %s: %v\n", group, err)
		}
	}
}

// removeTree removes folders from the lowest up. A control group's files can't
// be removed, and go with it.
func removeTree(root string) error {
	var folders []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	for _, folder := range slices.Backward(folders) {
		if removeErr := os.Remove(folder); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return err
}
