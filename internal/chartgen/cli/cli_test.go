// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeChart makes a chart folder of the given files.
func writeChart(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "thing")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, ok := files["Chart.yaml"]; !ok {
		files["Chart.yaml"] = "apiVersion: v2\nname: thing\nversion: 1.0.0\n"
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Main(args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestCRDIsWrittenAndChecked(t *testing.T) {
	chart := writeChart(t, map[string]string{"values.schema.json": `{"type":"object","properties":{"a":{"type":"integer"}}}`})
	output := filepath.Join(t.TempDir(), "bases")
	args := []string{"crd", "--chart", chart, "--kind", "Thing", "--output", output}

	if code, _, stderr := run(append(args, "--check")...); code != 1 || !strings.Contains(stderr, "is missing: run chartgen crd without --check") {
		t.Errorf("check before: exit %d, %s", code, stderr)
	}
	if code, _, stderr := run(args...); code != 0 || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	path := filepath.Join(output, "apps.chartgate.dev_things.yaml")
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(append(args, "--check")...); code != 0 {
		t.Errorf("check after: exit %d, %s", code, stderr)
	}
	if code, stdout, _ := run(append(args, "--output", "-")...); code != 0 || stdout != string(written) {
		t.Errorf("standard output differs from the file, exit %d", code)
	}
	if err := os.WriteFile(path, append(written, '#'), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(append(args, "--check")...); code != 1 || !strings.Contains(stderr, "is not what") {
		t.Errorf("check of an edited file: exit %d, %s", code, stderr)
	}
}

func TestWarningsGoToStderrAndFailWhenStrict(t *testing.T) {
	chart := writeChart(t, map[string]string{"values.schema.json": "{\"properties\":{\n\"a\":{\"type\":[\"string\",\"object\"]}}}"})
	args := []string{"crd", "--chart", chart, "--kind", "Thing", "--output", filepath.Join(t.TempDir(), "crd.yaml")}
	where := filepath.ToSlash(chart) + "/values.schema.json:2: #/properties/a: may be object or string"
	if code, _, stderr := run(args...); code != 0 || !strings.HasPrefix(stderr, "warning: "+where) {
		t.Errorf("exit %d, %s", code, stderr)
	}
	strict := append(args, "--strict", "--output", filepath.Join(t.TempDir(), "strict.yaml"))
	if code, _, stderr := run(strict...); code != 1 || !strings.HasPrefix(stderr, "error: "+where) {
		t.Errorf("strict: exit %d, %s", code, stderr)
	}
	if _, err := os.Stat(strict[len(strict)-1]); err == nil {
		t.Error("strict failed, and wrote the file all the same")
	}
}

func TestBadInputIsToldInOneLine(t *testing.T) {
	good := writeChart(t, map[string]string{})
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no chart":             {[]string{"--kind", "Thing"}, "no chart given"},
		"no kind":              {[]string{"--chart", good}, "no kind given"},
		"no such chart":        {[]string{"--chart", good + "-not", "--kind", "Thing"}, "there is no such chart"},
		"a broken Chart.yaml":  {[]string{"--chart", writeChart(t, map[string]string{"Chart.yaml": "name: [\n"}), "--kind", "Thing"}, "the chart can't be read"},
		"a broken values.yaml": {[]string{"--chart", writeChart(t, map[string]string{"values.yaml": "a: 1\nb: [\n"}), "--kind", "Thing"}, "values.yaml"},
		"an unknown flag":      {[]string{"--what"}, "unknown flag"},
		"a stray argument":     {[]string{"thing"}, "unknown command"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := run(append([]string{"crd", "--output", "-"}, tc.args...)...)
			if code != 1 || !strings.Contains(stderr, tc.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit %d, %q, want one line with %q", code, stderr, tc.want)
			}
		})
	}
}
