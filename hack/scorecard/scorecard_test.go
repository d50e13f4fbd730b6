// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/hack/olm"
)

const committed = "../../bundle"

func TestTheBundlePasses(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--bundle", committed, "--all"}, &out); err != nil {
		t.Fatal(err)
	}
	for name := range tests {
		if !strings.Contains(out.String(), "passes "+name+"\n") {
			t.Errorf("nothing is said of %s:\n%s", name, out.String())
		}
	}
}

// Every test finds what it is there for, where the bundle is changed so that it is wrong.
func TestWhatIsWrongIsFound(t *testing.T) {
	const csv, guestbooks = "chartgate.clusterserviceversion.yaml", "apps.chartgate.dev_guestbooks.yaml"
	for name, c := range map[string]struct{ test, file, old, new, want string }{
		"no category":              {"kinds-are-gated", guestbooks, "    categories:\n    - chartgate\n", "", "guestbooks.apps.chartgate.dev: it is not in the category chartgate"},
		"no status subresource":    {"kinds-are-gated", guestbooks, "    subresources:\n      status: {}\n", "", "version v1alpha1: it has no status subresource"},
		"no gates":                 {"kinds-are-gated", guestbooks, "              gates:\n", "              doors:\n", "it has no field spec.gates"},
		"no column":                {"kinds-are-gated", guestbooks, "name: Revision\n", "name: Number\n", "it has no column Revision"},
		"all verbs":                {"rights-are-bounded", csv, "          - impersonate\n", "          - '*'\n", `verbs is ["get" "*"]`},
		"Secrets in all places":    {"rights-are-bounded", csv, "          - namespaces\n", "          - secrets\n", `secrets of group "" in the whole cluster`},
		"no webhook for approvals": {"approvals-are-vouched-for", csv, "      - releaseapprovals\n    sideEffects", "      - others\n    sideEffects", "no webhook is asked"},
		"a webhook that gives way": {"approvals-are-vouched-for", csv, "failurePolicy: Fail", "failurePolicy: Ignore", "failurePolicy is Ignore, not Fail"},
	} {
		t.Run(name, func(t *testing.T) {
			original, err := olm.Read(committed)
			if err != nil {
				t.Fatal(err)
			}
			bundle, err := original.Copy(filepath.Join(t.TempDir(), "bundle"))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(bundle.Dir, "manifests", c.file)
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.ReplaceAll(string(content), c.old, c.new)
			if changed == string(content) {
				t.Fatalf("%s has no %q any more", c.file, c.old)
			}
			if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := run(t.Context(), []string{"--bundle", bundle.Dir, c.test}, &out); err != nil {
				t.Fatal(err)
			}
			var got testStatus
			if err := json.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if len(got.Results) != 1 || got.Results[0].State != "fail" || !strings.Contains(strings.Join(got.Results[0].Errors, "\n"), c.want) {
				t.Errorf("the result is %s; want %q", out.String(), c.want)
			}
			if err := run(t.Context(), []string{"--bundle", bundle.Dir, "--all"}, &out); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("all tests: %v", err)
			}
		})
	}
}

func TestAWrongCommandLineSaysWhatThereIs(t *testing.T) {
	for _, args := range [][]string{{}, {"other"}, {"kinds-are-gated", "rights-are-bounded"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "kinds-are-gated, rights-are-bounded") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// The bundle runs each of these tests, and by the image of its own version.
func TestTheBundleNamesTheTests(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(committed, "tests", "scorecard", "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Stages []struct {
			Tests []struct {
				Entrypoint []string `json:"entrypoint"`
				Image      string   `json:"image"`
			} `json:"tests"`
		} `json:"stages"`
	}
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	bundle, err := olm.Read(committed)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, stage := range config.Stages {
		for _, test := range stage.Tests {
			if len(test.Entrypoint) != 2 || test.Entrypoint[0] != program {
				continue
			}
			named++
			if tests[test.Entrypoint[1]] == nil {
				t.Errorf("there is no test %s", test.Entrypoint[1])
			}
			if want := "ghcr.io/chartgate/chartgate-scorecard:v" + bundle.Version; test.Image != want {
				t.Errorf("image %s, want %s", test.Image, want)
			}
		}
	}
	if named != len(tests) {
		t.Errorf("%d tests are named, and there are %d", named, len(tests))
	}
}
