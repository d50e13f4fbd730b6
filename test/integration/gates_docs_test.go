// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/watch"
	"github.com/chartgate/chartgate/test/harness"
)

// example is a resource of docs/gates.md, and the commands after it that open its gates.
type example struct {
	manifest, commands string
	name               string
	gates              []v1alpha1.Gate
}

var codeBlock = regexp.MustCompile("(?s)```(yaml|sh)\n(.*?)```")

// examples reads docs/gates.md.
func examples(t *testing.T, root string) (all []example, watches string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "docs", "gates.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range codeBlock.FindAllStringSubmatch(string(content), -1) {
		switch language, text := block[1], block[2]; {
		case language == "sh":
			all[len(all)-1].commands += text
		case strings.HasPrefix(text, "- group:"):
			watches = text
		default:
			var obj struct {
				Metadata metav1.ObjectMeta   `json:"metadata"`
				Spec     v1alpha1.CommonSpec `json:"spec"`
			}
			if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
				t.Fatalf("%v in %s", err, text)
			}
			all = append(all, example{manifest: text, name: obj.Metadata.Name, gates: obj.Spec.Gates})
		}
	}
	return all, watches
}

func TestGateExamplesOfTheDocumentation(t *testing.T) {
	e := harness.New(t)
	t.Chdir(e.Root())
	all, watches := examples(t, e.Root())
	file := filepath.Join(t.TempDir(), "watches.yaml")
	e.WriteFile(file, watches)
	types := map[v1alpha1.GateType]bool{}
	var known []string
	for gateType := range gate.Evaluators(gate.Options{}) {
		types[gateType] = false
		known = append(known, string(gateType))
	}
	loaded, err := watch.Load(file, watch.Known{GateTypes: known})
	if err != nil || len(loaded) != 1 || len(loaded[0].Gates) != 1 {
		t.Fatalf("the watches.yaml of the documentation: %v, %+v", err, loaded)
	}

	e.Kubectl("apply", "--server-side", "-f", filepath.Join("config", "crd", "bases"))
	e.Kubectl("wait", "--for=condition=Established", "crd/guestbooks.apps.chartgate.dev")
	installPolicy(e)
	e.StartManager(harness.ManagerOptions{Watches: `
- group: apps.chartgate.dev
  version: v1alpha1
  kind: Guestbook
  chart: helm-charts/guestbook
`, Args: onlyWatches})
	run := e.Shell()
	for _, x := range all {
		for _, g := range x.gates {
			types[g.Type] = true
		}
		run("kubectl apply -f - <<'MANIFEST'\n" + x.manifest + "MANIFEST\n")
		run("kubectl wait --for=jsonpath='{.status.gatesPassed}'=0/1 --timeout=60s guestbook/" + x.name)
		if x.gates[0].Type == v1alpha1.GateManualApproval {
			run("kubectl wait --for=create --timeout=60s configmap/guestbook-" + x.name + "-plan")
		}
		e.WantHistory(x.name, "")
		run(x.commands)
		run("kubectl wait --for=condition=Ready --timeout=60s guestbook/" + x.name)
		run("kubectl delete guestbook " + x.name)
	}
	for gateType, shown := range types {
		if !shown {
			t.Errorf("docs/gates.md has no example of type %s", gateType)
		}
	}
}
