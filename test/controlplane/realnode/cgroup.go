// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// groupPrefix starts the name of every cluster's control group. The id and the
// start of the process that the cluster belongs to follow, so that a later one
// can tell whether it still runs.
const groupPrefix = "chartgate-"

// neededControllers are what kubelet limits Pods with.
var neededControllers = []string{"cpu", "cpuset", "memory", "pids"}

// A hierarchy is one mounted tree of control groups. There is one with version
// 2, and several with version 1.
type hierarchy struct {
	mount   string
	unified bool     // version 2
	holds   []string // version 1's controllers
}

type hierarchies []hierarchy

func readHierarchies() (hierarchies, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("look for control groups: %w", err)
	}
	return parseHierarchies(string(mounts)), nil
}

func parseHierarchies(mounts string) hierarchies {
	var found hierarchies
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		switch fields[2] {
		case "cgroup2":
			found = append(found, hierarchy{mount: fields[1], unified: true})
		case "cgroup":
			found = append(found, hierarchy{mount: fields[1], holds: strings.Split(fields[3], ",")})
		}
	}
	return found
}

// check tells whether all controllers that kubelet needs are there.
func (h hierarchies) check() error {
	var missing []string
	for _, controller := range neededControllers {
		if !slices.ContainsFunc(h, func(one hierarchy) bool { return one.has(controller) }) {
			missing = append(missing, controller)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("a real node needs the control groups %s, which are not mounted in /sys/fs/cgroup: in a container, run it with --privileged and --cgroupns=host",
			strings.Join(missing, ", "))
	}
	return nil
}

func (h hierarchy) has(controller string) bool {
	if !h.unified {
		return slices.Contains(h.holds, controller)
	}
	available, err := os.ReadFile(filepath.Join(h.mount, "cgroup.controllers"))
	return err == nil && slices.Contains(strings.Fields(string(available)), controller)
}

// A controlGroup is what all Pods of a cluster are in.
type controlGroup struct{ name string }

func newControlGroup() controlGroup {
	return controlGroup{fmt.Sprintf("%s%d-%s-%s", groupPrefix, os.Getpid(), startTime(os.Getpid()), strings.ToLower(rand.Text()[:6]))}
}

// create makes the group in every hierarchy.
func (g controlGroup) create() error {
	all, err := readHierarchies()
	if err != nil {
		return err
	}
	for _, one := range all {
		group := filepath.Join(one.mount, g.name)
		if err := os.MkdirAll(group, 0o755); err != nil {
			return fmt.Errorf("create the cluster's control group: %w", err)
		}
		switch {
		case one.unified:
			err = one.passControllers()
		case one.has("cpuset"):
			// A new group has no processors and no memory, and nothing can run in it.
			err = errors.Join(copyFile(one.mount, group, "cpuset.cpus"), copyFile(one.mount, group, "cpuset.mems"))
		}
		if err != nil {
			return fmt.Errorf("prepare the cluster's control group %s: %w", group, err)
		}
	}
	return nil
}

// passControllers lets the groups below the root use version 2's controllers,
// as far as they don't yet.
func (h hierarchy) passControllers() error {
	file := filepath.Join(h.mount, "cgroup.subtree_control")
	passed, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	// Kubelet insists on hugetlb as well where there is one. Beside version
	// 1 there may be none of them here.
	for _, controller := range append([]string{"hugetlb"}, neededControllers...) {
		if !h.has(controller) || slices.Contains(strings.Fields(string(passed)), controller) {
			continue
		}
		if err := os.WriteFile(file, []byte("+"+controller), 0o644); err != nil {
			return fmt.Errorf("let groups below %s use the controller %s: %w (in a container, move all processes from that group to one below it first)",
				h.mount, controller, err)
		}
	}
	return nil
}

func copyFile(from, to, name string) error {
	content, err := os.ReadFile(filepath.Join(from, name))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, name), bytes.TrimSpace(content), 0o644)
}

// sweep removes the control groups of clusters that have ended without that
// their guard could: if it was killed itself.
func sweep(progress io.Writer, guard string) {
	all, err := readHierarchies()
	if err != nil {
		return // create says so
	}
	stale := map[string]bool{}
	for _, one := range all {
		groups, _ := filepath.Glob(filepath.Join(one.mount, groupPrefix+"*"))
		for _, group := range groups {
			if name := filepath.Base(group); !belongsToRunning(name) {
				stale[name] = true
			}
		}
	}
	for name := range stale {
		fmt.Fprintf(progress, "removing the control group %s of a cluster that was killed\n", name)
		if err := removeGroup(guard, name); err != nil {
			fmt.Fprintf(progress, "that failed: %v\n", err)
		}
	}
}

// removeGroup has a guard do it, which knows how.
func removeGroup(guard, name string) error {
	command := exec.Command(guard, "-cgroup", name, "--", "true")
	// Without this the guard would take its owner for gone.
	input, err := command.StdinPipe()
	if err != nil {
		return err
	}
	defer input.Close()
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

// belongsToRunning tells whether the process that a control group is named
// after still runs.
func belongsToRunning(group string) bool {
	var pid int
	var started, rest string
	fields := strings.SplitN(strings.TrimPrefix(group, groupPrefix), "-", 3)
	if len(fields) != 3 {
		return true // another's
	}
	if _, err := fmt.Sscan(fields[0], &pid); err != nil {
		return true
	}
	started, rest = fields[1], fields[2]
	return rest == "" || startTime(pid) == started
}

// startTime returns when a process was started, in clock ticks since the start
// of the machine, or nothing if it has ended.
func startTime(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name, in parentheses, may hold anything. After it, the state is the
	// first field and the start time the twentieth.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || string(fields[0]) == "Z" {
		return ""
	}
	return string(fields[19])
}
