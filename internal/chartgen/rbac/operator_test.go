// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/internal/translate/bundled"
)

// operatorInput is what make manifests gives to chartgen rbac.
func operatorInput(t *testing.T) Input {
	t.Helper()
	t.Chdir("../../..") // charts of watches.yaml are found from there
	kinds := NewKinds()
	if err := kinds.LoadCRDs("config/crd/bases"); err != nil {
		t.Fatal(err)
	}
	return Input{Kinds: kinds, Samples: []string{"config/samples"}, Translators: bundled.Translators()}
}

func TestConfigIsWhatIsGenerated(t *testing.T) {
	files, messages, err := operatorInput(t).Watches("watches.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if wrong := slices.DeleteFunc(messages, func(m Message) bool { return m.Note }); len(wrong) > 0 {
		t.Errorf("messages about the operator's own charts:\n%s", told(wrong))
	}
	for _, f := range files {
		have, err := os.ReadFile(filepath.Join("config", "rbac", f.Name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(have), string(f.Content)); diff != "" {
			t.Errorf("config/rbac/%s is not what chartgen rbac gives (make manifests writes it):\n%s", f.Name, diff)
		}
	}
}

func TestGuestbookTakesNoMoreThanItMakes(t *testing.T) {
	in := operatorInput(t)
	in.Samples = []string{"config/samples/apps_v1alpha1_guestbook.yaml"}
	rules, messages, err := in.Chart("helm-charts/guestbook")
	if err != nil || len(messages) > 0 {
		t.Fatalf("error %v, messages:\n%s", err, told(messages))
	}
	var got []rbacv1.PolicyRule
	if err := yaml.UnmarshalStrict(rules, &got); err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims", "serviceaccounts", "services"}, Verbs: releaseVerbs},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: releaseVerbs},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses"}, Verbs: releaseVerbs},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRolesHoldNoWildcardAndAreSplitByScope(t *testing.T) {
	in := operatorInput(t)
	files, _, err := in.Watches("watches.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster := map[string]bool{}
	for _, r := range in.Kinds.known {
		cluster[r.String()] = r.Cluster
	}
	for _, f := range files {
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(f.Content, &role); err != nil {
			t.Fatal(err)
		}
		if len(role.Rules) == 0 {
			t.Errorf("%s has no rules", f.Name)
		}
		for _, rule := range role.Rules {
			if slices.Contains(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), "*") {
				t.Errorf("%s: a wildcard in %v", f.Name, rule)
			}
			for _, resource := range rule.Resources {
				name, _, _ := strings.Cut(resource, "/")
				if rule.APIGroups[0] != "" {
					name += "." + rule.APIGroups[0]
				}
				isCluster, known := cluster[name]
				if !known || isCluster != (f.Name == ClusterRoleFile) {
					t.Errorf("%s: %s does not belong there (known: %v, in no namespace: %v)", f.Name, name, known, isCluster)
				}
			}
		}
	}
}

func TestOperatorHoldsWhatItsChartsTake(t *testing.T) {
	dir := t.TempDir()
	watches := filepath.Join(dir, "watches.yaml")
	chart, err := filepath.Abs("testdata/roles")
	if err != nil {
		t.Fatal(err)
	}
	write(t, watches, "- {group: test.dev, version: v1, kind: Thing, chart: "+chart+"}\n- {group: test.dev, version: v1, kind: Wide, chart: "+chart+"}\n")
	kinds := NewKinds()
	for _, r := range []string{"Thing.test.dev=things", "Wide.test.dev=wides,cluster"} {
		if err := kinds.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	files, _, err := Input{Kinds: kinds}.Watches(watches)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range files {
		out.WriteString("--- " + f.Name + "\n" + strings.ReplaceAll(string(f.Content), chart, "CHART"))
	}
	golden(t, "operator.golden.yaml", out.String())
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBadInputIsTold(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "broken", "Chart.yaml"), "apiVersion: v2\nname: broken\nversion: 1.0.0\n")
	write(t, filepath.Join(dir, "broken", "templates", "all.yaml"), "a: b\n{{ if }}\n")
	write(t, filepath.Join(dir, "good", "Chart.yaml"), "apiVersion: v2\nname: good\nversion: 1.0.0\n")
	write(t, filepath.Join(dir, "watches.yaml"), "- {group: test.dev, version: v1, kind: Thing, chart: "+filepath.Join(dir, "good")+"}\n")
	write(t, filepath.Join(dir, "other.yaml"), "kind: Other\n")
	write(t, filepath.Join(dir, "crd.yaml"), "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\n")

	if _, _, err := (Input{Kinds: NewKinds()}).Chart(filepath.Join(dir, "broken")); err == nil || !strings.Contains(err.Error(), "broken/templates/all.yaml:2: missing value for if") {
		t.Errorf("a broken template: %v", err)
	}
	if _, _, err := (Input{Kinds: NewKinds()}).Watches(filepath.Join(dir, "watches.yaml")); err == nil || !strings.Contains(err.Error(), "--resource Thing.test.dev=things") {
		t.Errorf("a kind without a CRD: %v", err)
	}
	kinds := NewKinds()
	if err := kinds.Add("Thing.test.dev=things"); err != nil {
		t.Fatal(err)
	}
	_, messages, err := Input{Kinds: kinds, Samples: []string{filepath.Join(dir, "other.yaml")}}.Watches(filepath.Join(dir, "watches.yaml"))
	if err != nil || len(messages) != 1 || !strings.Contains(messages[0].String(), "other.yaml: the sample is of no kind of watches.yaml: Other") {
		t.Errorf("a sample of another kind: %v, %s", err, told(messages))
	}
	if err := NewKinds().LoadCRDs(filepath.Join(dir, "crd.yaml")); err == nil || !strings.Contains(err.Error(), "crd.yaml: CustomResourceDefinition x lacks spec.group") {
		t.Errorf("an empty CRD: %v", err)
	}
	for _, bad := range []string{"", "Thing", "thing.test.dev=things", "Thing.test.dev=", "Thing.test.dev=things,wide", "Thing=*"} {
		if err := NewKinds().Add(bad); err == nil {
			t.Errorf("resource %q was taken", bad)
		}
	}
}

// Resources that choose their chart themselves act with rights of their own: the operator takes none for what they release.
func TestChosenChartsGiveTheOperatorNoRights(t *testing.T) {
	in := operatorInput(t)
	with, _, err := in.Watches("watches.yaml")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile("watches.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kept, _, found := strings.Cut(string(content), "- group: apps.chartgate.dev\n  version: v1alpha1\n  kind: HelmApp\n")
	if !found || strings.Contains(kept, "source:") {
		t.Fatal("the kinds of chosen charts are not at the end of watches.yaml")
	}
	fewer := filepath.Join(t.TempDir(), "watches.yaml")
	if err := os.WriteFile(fewer, []byte(kept), 0o600); err != nil {
		t.Fatal(err)
	}
	without, _, err := in.Watches(fewer)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range with {
		text := string(f.Content)
		for _, suffix := range []string{"", "/finalizers", "/status"} {
			text = strings.ReplaceAll(text, "helmapps"+suffix+", microservices"+suffix+", ", "")
		}
		if diff := cmp.Diff(string(without[i].Content), text); diff != "" {
			t.Errorf("%s has more than the kinds themselves:\n%s", f.Name, diff)
		}
	}
}
