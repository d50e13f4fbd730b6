// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/controlplane/olm"
	"github.com/chartgate/chartgate/test/controlplane/realnode"
)

// The images that the bundle's scorecard tests are in, without their versions.
const (
	sdkScorecard = "quay.io/operator-framework/scorecard-test"
	ownScorecard = "ghcr.io/chartgate/chartgate-scorecard"
)

// TestScorecard has operator-sdk run all tests that the bundle names, its own and the project's, in
// Pods of a namespace that admits none but restricted ones.
func TestScorecard(t *testing.T) {
	t.Parallel() // it needs no operator
	programs, err := controlplane.Resolve(limited(t), os.Stderr, controlplane.OperatorSDK)
	must(t, err)
	images, err := olm.PushScorecard(limited(t), env.cluster)
	must(t, err)
	namespace := makeNamespace(t, "scorecard")
	kubectl(t, "", "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")

	// Of what the bundle says, only where images are pulled from changes.
	bundle := filepath.Join(env.root, "bundle")
	content, err := os.ReadFile(filepath.Join(bundle, "tests", "scorecard", "config.yaml"))
	must(t, err)
	var config struct {
		Stages []struct {
			Tests []scorecardTest `json:"tests"`
		} `json:"stages"`
	}
	must(t, yaml.Unmarshal(content, &config))
	var want []string
	moved := map[string]string{}
	for _, stage := range config.Stages {
		for _, test := range stage.Tests {
			want = append(want, test.Labels["test"])
			if moved[test.Image] != "" {
				continue
			}
			switch repository, version, _ := strings.Cut(test.Image, ":"); repository {
			case sdkScorecard:
				moved[test.Image] = images.Test
			case ownScorecard:
				moved[test.Image] = pushOwnScorecard(t, version)
			default:
				t.Fatalf("test %s has the image %s, which is not made here", test.Labels["test"], test.Image)
			}
		}
	}
	text := string(content)
	for from, to := range moved {
		text = strings.ReplaceAll(text, from, to)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	must(t, os.WriteFile(file, []byte(text), 0o600))

	out, err := command(t.Context(), "", programs[controlplane.OperatorSDK], "scorecard", bundle, "--config", file,
		"--kubeconfig", env.cluster.KubeconfigPath(), "--namespace", namespace, "--pod-security", "restricted",
		"--untar-image", images.Untar, "--wait-time", waitLimit.String(), "--output", "json")
	must(t, err) // it fails if a test does
	var list struct {
		Items []struct {
			Spec   scorecardTest `json:"spec"`
			Status struct {
				Results []struct {
					State string `json:"state"`
				} `json:"results"`
			} `json:"status"`
		} `json:"items"`
	}
	must(t, json.Unmarshal([]byte(out), &list))
	var passed []string
	for _, test := range list.Items {
		if results := test.Status.Results; len(results) == 1 && results[0].State == "pass" {
			passed = append(passed, test.Spec.Labels["test"])
		}
	}
	slices.Sort(want)
	slices.Sort(passed)
	if len(want) == 0 || !slices.Equal(passed, want) {
		t.Errorf("passed are the tests %v, want %v", passed, want)
	}
}

// scorecardTest is what scorecard.operatorframework.io/v1alpha3 says of a test.
type scorecardTest struct {
	Image  string            `json:"image"`
	Labels map[string]string `json:"labels"`
}

// pushOwnScorecard pushes the image of the project's scorecard tests and returns its reference.
func pushOwnScorecard(t *testing.T, version string) string {
	t.Helper()
	const name = "/chartgate/chartgate-scorecard:"
	cmd := exec.CommandContext(limited(t), "go", "run", "./hack/scorecard", "--build-image", env.cluster.Registry()+name+version, "--push",
		"--output", t.TempDir())
	cmd.Dir, cmd.WaitDelay = env.root, 10*time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("push the scorecard tests: %v\n%s", err, out)
	}
	return realnode.RegistryInside + name + version
}
