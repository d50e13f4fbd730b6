// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/watch"
)

func TestGatesOfAKindAreCheckedAtTheStart(t *testing.T) {
	_, err := loadKinds(&options{watchesFile: "watches.yaml"}, nil, []watch.Watch{{
		Line:  7,
		Gates: []v1alpha1.Gate{{Name: "rule", Type: v1alpha1.GateExpression, Expression: "self.spec.size >"}},
	}})
	if err == nil || !strings.Contains(err.Error(), "watches.yaml:7: gate rule: expression, line 1, column ") {
		t.Errorf("error: %v", err)
	}
}

func TestAllGateTypesAreKnown(t *testing.T) {
	want := []string{"ConfigMapExists", "DependencyReady", "Expression", "ManualApproval", "SecretExists", "TimeWindow"}
	if got := known().GateTypes; !slices.Equal(got, want) {
		t.Errorf("gate types %v, want %v", got, want)
	}
}

func TestChartsOfAKindMayBeChosenAtRunTime(t *testing.T) {
	shared := newCharts(&chartOptions{cacheSize: "1Mi"})
	load := func(w watch.Watch) (kind, error) { return loadKind(&options{}, shared, w) }
	app, err := load(watch.Watch{Source: watch.SourceRepository, ValuesPath: "spec.values"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := load(watch.Watch{Source: watch.SourceRepository, ValuesPath: "spec.values"})
	if err != nil || again.source != app.source {
		t.Errorf("two kinds do not share the source: %v", err)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"values": map[string]any{"a": "b"}, "resources": "text", "gates": []any{}, "more": "c", "chart": map[string]any{"checkInterval": int64(7)},
	}}}
	if values, err := app.translator.Translate(obj); err != nil || !reflect.DeepEqual(values, map[string]any{"a": "b"}) {
		t.Errorf("values %v, %v", values, err)
	}
	if app.checkInterval(obj) != 7 {
		t.Errorf("checkInterval %d", app.checkInterval(obj))
	}
	service, err := load(watch.Watch{Source: watch.SourceInline, ValuesPath: "spec"})
	if err != nil {
		t.Fatal(err)
	}
	values, err := service.translator.Translate(obj)
	if _, text := values["resources"]; err != nil || text || values["more"] != "c" {
		t.Errorf("values %v, %v", values, err)
	}
	dir := shared.temporary
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the temporary folder: %v", err)
	}
	if err := shared.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the temporary folder is left: %v", err)
	}
}

func TestFlagsForRepositoriesAreChecked(t *testing.T) {
	cases := map[string]chartOptions{
		"--chart-cache-size: \"much\"":                  {cacheSize: "much"},
		"--chart-cache-size: \"0\"":                     {cacheSize: "0"},
		"--allowed-repository-networks: \"10.0.0.1\"":   {cacheSize: "1Mi", allowedNetworks: []string{"10.0.0.1"}},
		"allowed repository \"charts.example.com\"":     {cacheSize: "1Mi", allowedRepositories: []string{"charts.example.com"}},
		"plain HTTP repository \"https://charts.test\"": {cacheSize: "1Mi", plainRepositories: []string{"https://charts.test"}},
	}
	for want, o := range cases {
		shared := newCharts(&o)
		_, err := loadKinds(&options{watchesFile: "watches.yaml"}, shared, []watch.Watch{{Line: 3, Source: watch.SourceRepository, ValuesPath: "spec.values"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: no word of %s", err, want)
		}
		if err := shared.close(); err != nil {
			t.Error(err)
		}
	}
}

func TestValuesOfAChosenChartNeedAPlace(t *testing.T) {
	_, err := loadKinds(&options{watchesFile: "watches.yaml"}, newCharts(&chartOptions{cacheSize: "1Mi"}), []watch.Watch{{Line: 3, Source: watch.SourceRepository, ValuesPath: "spec"}})
	if err == nil || !strings.HasPrefix(err.Error(), "watches.yaml:3: ") || !strings.Contains(err.Error(), "valuesPath: spec.values") {
		t.Errorf("error %v", err)
	}
}

// What its author chose is never released with the operator's rights.
func TestWhoServesAKind(t *testing.T) {
	for name, c := range map[string]struct {
		source        watch.Source
		watched, flag string
		want          string
	}{
		"a bundled chart is the operator's":  {source: watch.SourceBundled},
		"but where its watch names somebody": {source: watch.SourceBundled, watched: "deployer", flag: "tenant", want: "deployer"},
		"or the flag does":                   {source: watch.SourceBundled, flag: "tenant", want: "tenant"},
		"a chart from a repository is not":   {source: watch.SourceRepository, want: "default"},
		"nor are manifests":                  {source: watch.SourceInline, want: "default"},
		"the flag names another for these":   {source: watch.SourceInline, flag: "tenant", want: "tenant"},
		"and the watch goes before it":       {source: watch.SourceRepository, watched: "deployer", flag: "tenant", want: "deployer"},
		"a source that is new is not either": {source: "Elsewhere", want: "default"},
	} {
		if got := serviceAccount(&options{defaultServiceAccount: c.flag}, watch.Watch{Source: c.source, ServiceAccount: c.watched}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	o := &options{defaultServiceAccount: "kube-system:admin", maxConcurrentReconciles: 1, timeout: 1}
	if err := o.validate(); err == nil || !strings.Contains(err.Error(), "--default-service-account") {
		t.Errorf("error: %v", err)
	}
}
