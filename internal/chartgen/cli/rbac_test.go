// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// rbacProject writes a watches.yaml of one kind whose chart has the template, and returns the flags for it.
func rbacProject(t *testing.T, template string) (args []string, output string) {
	t.Helper()
	chart := writeChart(t, map[string]string{})
	if err := os.Mkdir(filepath.Join(chart, "templates"), 0o755); err != nil {
		t.Fatal(err)
	}
	watches := filepath.Join(filepath.Dir(chart), "watches.yaml")
	for path, content := range map[string]string{
		filepath.Join(chart, "templates", "all.yaml"): template,
		watches: "- {group: test.dev, version: v1, kind: Thing, chart: " + chart + "}\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	output = filepath.Join(filepath.Dir(chart), "rbac")
	return []string{"rbac", "--watches", watches, "--resource", "Thing.test.dev=things", "--output", output}, output
}

func TestRolesAreWrittenAndChecked(t *testing.T) {
	args, output := rbacProject(t, configMap)
	if code, _, stderr := run(append(args, "--check")...); code != 1 || !strings.Contains(stderr, "role.yaml is missing: run chartgen rbac without --check") {
		t.Errorf("check before: exit %d, %s", code, stderr)
	}
	if code, stdout, stderr := run(args...); code != 0 || stdout+stderr != "" {
		t.Fatalf("exit %d, %s%s", code, stdout, stderr)
	}
	if code, _, stderr := run(append(args, "--check")...); code != 0 {
		t.Errorf("check after: exit %d, %s", code, stderr)
	}
	_, stdout, _ := run(append(args, "--output", "-")...)
	var want []string
	for _, name := range []string{"role.yaml", "cluster_role.yaml"} {
		content, err := os.ReadFile(filepath.Join(output, name))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, string(content))
	}
	if stdout != strings.Join(want, "---\n") {
		t.Errorf("standard output differs from the files:\n%s", stdout)
	}
	path := filepath.Join(output, "cluster_role.yaml")
	if err := os.WriteFile(path, []byte("rules: []\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(append(args, "--check")...); code != 1 || !strings.Contains(stderr, path+" is not what") {
		t.Errorf("check of an edited file: exit %d, %s", code, stderr)
	}
}

func TestWhatIsNotCoveredIsToldAndFailsWhenStrict(t *testing.T) {
	const monitor = "{{ if eq .Release.Name \"never\" }}\napiVersion: v1\nkind: Service\n{{ end }}\n---\napiVersion: monitoring.example.com/v1\nkind: Monitor\nmetadata: {name: a}\n"
	args, output := rbacProject(t, monitor)
	const note, missing = "all.yaml:3: no rendering reached this Service", "all.yaml:7: how Monitor.monitoring.example.com is served is not known"
	code, _, stderr := run(append(args, "--strict")...)
	if code != 1 || !strings.Contains(stderr, note) || !strings.Contains(stderr, missing) || !strings.Contains(stderr, "1 warnings, and --strict allows none") {
		t.Errorf("strict: exit %d, %s", code, stderr)
	}
	if _, err := os.Stat(output); err == nil {
		t.Error("strict failed, and wrote the files all the same")
	}
	if code, _, stderr := run(args...); code != 0 || !strings.Contains(stderr, "warning: ") || !strings.Contains(stderr, "note: ") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	args = append(args, "--strict", "--resource", "Monitor.monitoring.example.com=monitors,cluster")
	if code, _, stderr := run(args...); code != 0 {
		t.Errorf("with the resource named: exit %d, %s", code, stderr)
	}
	written, err := os.ReadFile(filepath.Join(output, "cluster_role.yaml"))
	if err != nil || !strings.Contains(string(written), "resources: [monitors]") {
		t.Errorf("cluster role: %v\n%s", err, written)
	}
}

func TestBadInputOfRBACIsToldInOneLine(t *testing.T) {
	good := writeChart(t, map[string]string{})
	args, _ := rbacProject(t, configMap)
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"neither watches nor chart": {nil, "name either"},
		"both":                      {append(args[1:], "--chart", good), "name either"},
		"no such watches":           {[]string{"--watches", good + "-not"}, "cannot be read"},
		"no such chart":             {[]string{"--chart", good + "-not"}, "no such file"},
		"no such sample":            {[]string{"--chart", good, "--sample", good + "-not"}, "no such file"},
		"no such CRDs":              {[]string{"--chart", good, "--crds", good + "-not"}, "no such file"},
		"a bad resource":            {[]string{"--chart", good, "--resource", "things"}, "write Kind.group=plural"},
		"an unknown flag":           {[]string{"--what"}, "unknown flag"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := run(append([]string{"rbac"}, tc.args...)...)
			if code != 1 || !strings.Contains(stderr, tc.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit %d, %q, want one line with %q", code, stderr, tc.want)
			}
		})
	}
}
