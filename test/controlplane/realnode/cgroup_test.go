// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unified makes what looks like version 2's root group.
func unified(t *testing.T, controllers, passed string) hierarchy {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"cgroup.controllers": controllers, "cgroup.subtree_control": passed} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return hierarchy{mount: dir, unified: true}
}

func TestHierarchiesOfBothVersionsAreFound(t *testing.T) {
	found := parseHierarchies(`proc /proc proc rw 0 0
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
`)
	if len(found) != 3 || !found[0].has("cpu") || found[0].has("memory") || found[1].has("cpu") || !found[2].unified {
		t.Errorf("found %+v", found)
	}
}

func TestMissingControllersAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		hierarchies hierarchies
		missing     string
	}{
		"version 2":            {hierarchies{unified(t, "cpuset cpu io memory pids", "")}, ""},
		"version 2 incomplete": {hierarchies{unified(t, "cpu memory", "")}, "cpuset, pids"},
		"version 1": {hierarchies{
			{mount: "/a", holds: []string{"rw", "cpu", "cpuset"}}, {mount: "/b", holds: []string{"memory"}}, {mount: "/c", holds: []string{"pids"}},
			unified(t, "", ""),
		}, ""},
		"none": {nil, "cpu, cpuset, memory, pids"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.hierarchies.check()
			switch {
			case test.missing == "" && err != nil:
				t.Error(err)
			case test.missing != "" && (err == nil || !strings.Contains(err.Error(), "control groups "+test.missing+",")):
				t.Errorf("got %v, want an error that names %s", err, test.missing)
			}
		})
	}
}

func TestControllersArePassedToGroupsBelowTheRoot(t *testing.T) {
	// The last one that is passed stays in a file that is none of the kernel's.
	for name, test := range map[string]struct{ controllers, passed, want string }{
		"all are passed already":    {"cpuset cpu memory pids", "cpuset cpu memory pids", "cpuset cpu memory pids"},
		"one is not":                {"cpuset cpu memory pids", "cpuset cpu pids", "+memory"},
		"hugetlb, which is there":   {"cpuset cpu memory pids hugetlb", "cpuset cpu memory pids", "+hugetlb"},
		"beside version 1 are none": {"rdma", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := unified(t, test.controllers, test.passed)
			if err := root.passControllers(); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(root.mount, "cgroup.subtree_control"))
			if err != nil || strings.TrimSpace(string(got)) != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}
