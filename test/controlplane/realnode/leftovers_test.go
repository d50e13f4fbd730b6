// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// A trace is what a cluster could leave on the machine.
type trace struct {
	mounts, interfaces, settings []string
}

// traceOf looks at the machine as this process sees it.
func traceOf(t *testing.T) trace {
	t.Helper()
	read := func(file string) string {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(content))
	}
	var found trace
	found.mounts = slices.Sorted(strings.Lines(read("/proc/self/mounts")))
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		found.interfaces = append(found.interfaces, address.String())
	}
	for _, line := range strings.Split(read("/proc/net/dev"), "\n")[2:] {
		name, _, _ := strings.Cut(line, ":")
		found.interfaces = append(found.interfaces, strings.TrimSpace(name))
	}
	slices.Sort(found.interfaces)
	found.interfaces = append(found.interfaces, read("/proc/net/route"))
	for _, setting := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/hostname", "net/ipv4/ip_forward",
	} {
		found.settings = append(found.settings, setting+"="+read("/proc/sys/"+setting))
	}
	return found
}

// processesOf returns all processes that have something to do with a cluster:
// by their arguments or by their namespaces.
func processesOf(dir, namespace string) map[int]string {
	found := map[int]string{}
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		pid, _ := strconv.Atoi(filepath.Base(entry))
		arguments, _ := os.ReadFile(filepath.Join(entry, "cmdline"))
		pidNamespace, _ := os.Readlink(filepath.Join(entry, "ns/pid"))
		if strings.Contains(string(arguments), dir) || pidNamespace == namespace {
			found[pid] = strings.ReplaceAll(string(arguments), "\x00", " ")
		}
	}
	return found
}

func groupsOf(t *testing.T, name string) []string {
	t.Helper()
	all, err := readHierarchies()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, one := range all {
		if _, err := os.Stat(filepath.Join(one.mount, name)); err == nil {
			found = append(found, filepath.Join(one.mount, name))
		}
	}
	return found
}

// startHolder starts a cluster in a process of its own and returns that process.
func startHolder(t *testing.T) (*exec.Cmd, holding) {
	t.Helper()
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), holderVariable+"=1")
	holder.Stderr = os.Stderr
	input, err := holder.StdinPipe() // so the holder ends even if this test does not kill it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = input.Close() })
	output, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Process.Kill() })
	var held holding
	if err := json.NewDecoder(output).Decode(&held); err != nil {
		_ = holder.Wait()
		t.Fatalf("the holder did not start a cluster: %v", err)
	}
	return holder, held
}

func TestKilledOwnerLeavesNothing(t *testing.T) {
	needSupport(t)
	before := traceOf(t)
	for name, victim := range map[string]func(*exec.Cmd, holding) int{
		"when the owner is killed": func(owner *exec.Cmd, _ holding) int { return owner.Process.Pid },
		"when the guard of the namespaces is killed, which would clean up": func(_ *exec.Cmd, held holding) int { return held.Servers[0].GuardPID },
	} {
		t.Run(name, func(t *testing.T) {
			owner, held := startHolder(t)
			namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", held.Servers[0].PID))
			if err != nil {
				t.Fatal(err)
			}
			running := processesOf(held.Dir, namespace)
			// Besides servers, guards and nsenter: shims, pause and CoreDNS.
			if minimum := 2*len(held.Servers) + 3; len(running) < minimum {
				t.Errorf("%d processes, want at least %d: %v", len(running), minimum, running)
			}
			if len(groupsOf(t, held.Group)) == 0 {
				t.Errorf("there is no control group %s", held.Group)
			}
			pid := victim(owner, held)
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			ctx := testContext(t, time.Minute)
			if pid == held.Servers[0].GuardPID {
				// With the guard the first process goes, and so do all others, while
				// the owner lives. The next start removes the control group.
				awaitEnd(ctx, t, func() error { return noProcesses("/no/such/folder", namespace) })
				_ = owner.Process.Kill()
				_ = owner.Wait()
				sweepNow(t)
				if err := os.RemoveAll(held.Dir); err != nil {
					t.Error(err)
				}
			} else {
				_ = owner.Wait()
			}
			awaitEnd(ctx, t, func() error {
				if left := groupsOf(t, held.Group); len(left) > 0 {
					return fmt.Errorf("control groups are left: %v", left)
				}
				if _, err := os.Stat(held.Dir); !errors.Is(err, os.ErrNotExist) {
					return errors.Join(fmt.Errorf("the folder %s is left", held.Dir), err)
				}
				return noProcesses(held.Dir, namespace)
			})
			after := traceOf(t)
			for what, lists := range map[string][2][]string{
				"mounts":     {before.mounts, after.mounts},
				"interfaces": {before.interfaces, after.interfaces},
				"settings":   {before.settings, after.settings},
			} {
				if !slices.Equal(lists[0], lists[1]) {
					t.Errorf("%s before:\n%s\nand after:\n%s", what, strings.Join(lists[0], "\n"), strings.Join(lists[1], "\n"))
				}
			}
		})
	}
}

func awaitEnd(ctx context.Context, t *testing.T, check func() error) {
	t.Helper()
	err := supervise.WaitFor(ctx, "the end of everything", func(context.Context) error { return check() })
	if err != nil {
		t.Error(err)
	}
}

func noProcesses(dir, namespace string) error {
	if left := processesOf(dir, namespace); len(left) > 0 {
		return fmt.Errorf("processes are left: %v", left)
	}
	return nil
}

func sweepNow(t *testing.T) {
	t.Helper()
	programs, err := controlplane.Resolve(t.Context(), os.Stderr, controlplane.Guard)
	if err != nil {
		t.Fatal(err)
	}
	sweep(os.Stderr, programs[controlplane.Guard])
}

func TestSweepLeavesRunningClustersAlone(t *testing.T) {
	needSupport(t)
	all, err := readHierarchies()
	if err != nil {
		t.Fatal(err)
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	groups := map[string]bool{
		newControlGroup().name: true,
		fmt.Sprintf("%s%d-12345-abcdef", groupPrefix, ended.Process.Pid): false,
		groupPrefix + "foreign": true,
	}
	for name := range groups {
		group := filepath.Join(all[0].mount, name)
		if err := os.MkdirAll(filepath.Join(group, "kubepods"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = os.Remove(filepath.Join(group, "kubepods")), os.Remove(group) })
	}
	sweepNow(t)
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		_, err := os.Stat(filepath.Join(all[0].mount, name))
		if stays := err == nil; stays != groups[name] {
			t.Errorf("%s: stays = %t, want %t", name, stays, groups[name])
		}
	}
}
