// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// known are the names of the product.
var known = Known{
	Translators: []string{"webapp", "database"},
	GateTypes: []string{
		"ConfigMapExists", "SecretExists", "DependencyReady", "ManualApproval", "Expression", "TimeWindow",
	},
}

// guestbook is an entry that is complete; fields can be appended to it.
const guestbook = `- group: apps.chartgate.dev
  version: v1alpha1
  kind: Guestbook
  chart: helm-charts/guestbook
`

func guestbookWatch(mutate ...func(*Watch)) Watch {
	w := Watch{
		GroupVersionKind: schema.GroupVersionKind{
			Group: "apps.chartgate.dev", Version: "v1alpha1", Kind: "Guestbook",
		},
		ChartPath:               "helm-charts/guestbook",
		Source:                  SourceBundled,
		ValuesPath:              "spec",
		Rollout:                 Rollout{MaxParallel: 10, MaxFailures: 3},
		WatchDependentResources: true,
		Line:                    1,
	}
	for _, m := range mutate {
		m(&w)
	}
	return w
}

func TestParseReadsWhatIsWritten(t *testing.T) {
	tests := map[string]struct {
		in   string
		want []Watch
	}{
		"the defaults of a minimal entry": {
			in:   guestbook,
			want: []Watch{guestbookWatch()},
		},
		"every field of operator-sdk": {
			in: guestbook + `  watchDependentResources: false
  reconcilePeriod: 1m30s
  maxConcurrentReconciles: 4
  dryRunOption: server
  selector:
    matchLabels:
      team: a
      canary: true
      level: 1
    matchExpressions:
    - {key: env, operator: In, values: [prod, test]}
    - {key: legacy, operator: DoesNotExist}
  overrideValues:
    image.tag: "1.2"
`,
			want: []Watch{guestbookWatch(func(w *Watch) {
				w.WatchDependentResources = false
				w.ReconcilePeriod = new(90 * time.Second)
				w.MaxConcurrentReconciles = new(4)
				w.DryRunOption = DryRunServer
				w.Selector = &metav1.LabelSelector{
					MatchLabels: map[string]string{"team": "a", "canary": "true", "level": "1"},
					MatchExpressions: []metav1.LabelSelectorRequirement{
						{Key: "env", Operator: metav1.LabelSelectorOpIn, Values: []string{"prod", "test"}},
						{Key: "legacy", Operator: metav1.LabelSelectorOpDoesNotExist},
					},
				}
				w.OverrideValues = map[string]any{"image": map[string]any{"tag": "1.2"}}
			})},
		},
		"every field of Chartgate": {
			in: guestbook + `  source: Bundled
  translator: webapp
  valuesPath: spec.values
  serviceAccount: deployer
  allowCrossNamespaceRefs: true
  rollout:
    maxParallel: 5
    maxFailures: 1
  gates:
  - name: config
    type: ConfigMapExists
    description: the settings
    mandatory: false
    checkInterval: 60
    keys: [a, "b"]
    ref: {apiVersion: v1, kind: ConfigMap, name: settings, namespace: shared}
  - name: sign-off
    type: ManualApproval
    accept: [ReleaseApproval]
    perChange: true
  - name: window
    type: TimeWindow
    schedule: "0 22 * * *"
    duration: 2h
    timezone: UTC
  - name: check
    type: Expression
    expression: object.data.ready == "yes"
`,
			want: []Watch{guestbookWatch(func(w *Watch) {
				w.Translator = "webapp"
				w.ValuesPath = "spec.values"
				w.ServiceAccount = "deployer"
				w.AllowCrossNamespaceRefs = true
				w.Rollout = Rollout{MaxParallel: 5, MaxFailures: 1}
				w.Gates = []v1alpha1.Gate{
					{
						Name: "config", Type: v1alpha1.GateConfigMapExists, Description: "the settings",
						Mandatory: new(false), CheckInterval: new(int32(60)), Keys: []string{"a", "b"},
						Ref: &v1alpha1.GateRef{APIVersion: "v1", Kind: "ConfigMap", Name: "settings", Namespace: "shared"},
					},
					{
						Name: "sign-off", Type: v1alpha1.GateManualApproval, Mandatory: new(true), PerChange: true,
						Accept: []v1alpha1.ApprovalSource{v1alpha1.ApprovalFromReleaseApproval},
					},
					{
						Name: "window", Type: v1alpha1.GateTimeWindow, Mandatory: new(true), Schedule: "0 22 * * *",
						Duration: &metav1.Duration{Duration: 2 * time.Hour}, Timezone: "UTC",
					},
					{
						Name: "check", Type: v1alpha1.GateExpression, Mandatory: new(true),
						Expression: `object.data.ready == "yes"`,
					},
				}
			})},
		},
		"a null field is one that is not set": {
			in: guestbook + `  watchDependentResources:
  reconcilePeriod: ~
  overrideValues:
  gates: null
  selector:
  rollout:
`,
			want: []Watch{guestbookWatch()},
		},
		"words of YAML 1.1 are booleans, as for the old operators": {
			in:   guestbook + "  watchDependentResources: no\n",
			want: []Watch{guestbookWatch(func(w *Watch) { w.WatchDependentResources = false })},
		},
		"a period of zero is none": {
			in:   guestbook + "  reconcilePeriod: 0s\n",
			want: []Watch{guestbookWatch()},
		},
		"dryRunOption none reads the cluster, as Helm's does": {
			in:   guestbook + "  dryRunOption: none\n",
			want: []Watch{guestbookWatch(func(w *Watch) { w.DryRunOption = DryRunServer })},
		},
		"a group may be missing": {
			in: "- version: v1\n  kind: Foo\n  chart: ./foo\n",
			want: []Watch{guestbookWatch(func(w *Watch) {
				w.GroupVersionKind = schema.GroupVersionKind{Version: "v1", Kind: "Foo"}
				w.ChartPath = "./foo"
			})},
		},
		"a repository and an inline source have no chart": {
			in: `- {group: a.dev, version: v1, kind: HelmApp, source: Repository, valuesPath: spec.values}
- {group: a.dev, version: v1, kind: Microservice, source: Inline}
`,
			want: []Watch{
				guestbookWatch(func(w *Watch) {
					w.GroupVersionKind = schema.GroupVersionKind{Group: "a.dev", Version: "v1", Kind: "HelmApp"}
					w.ChartPath, w.Source, w.ValuesPath = "", SourceRepository, "spec.values"
				}),
				guestbookWatch(func(w *Watch) {
					w.GroupVersionKind = schema.GroupVersionKind{Group: "a.dev", Version: "v1", Kind: "Microservice"}
					w.ChartPath, w.Source, w.Line = "", SourceInline, 2
				}),
			},
		},
		"anchors, aliases and merge keys": {
			in: `- &first
  group: apps.chartgate.dev
  version: v1alpha1
  kind: Guestbook
  chart: helm-charts/guestbook
  reconcilePeriod: &p 5s
- <<: *first
  kind: Other
  reconcilePeriod: 7s
- <<: [{kind: Third}, *first]
  reconcilePeriod: *p
`,
			want: []Watch{
				guestbookWatch(func(w *Watch) { w.ReconcilePeriod = new(5 * time.Second) }),
				guestbookWatch(func(w *Watch) {
					w.GroupVersionKind.Kind, w.ReconcilePeriod, w.Line = "Other", new(7*time.Second), 7
				}),
				guestbookWatch(func(w *Watch) {
					w.GroupVersionKind.Kind, w.ReconcilePeriod, w.Line = "Third", new(5*time.Second), 10
				}),
			},
		},
		"Windows line ends and a byte order mark": {
			in:   "\ufeff" + strings.ReplaceAll(guestbook, "\n", "\r\n"),
			want: []Watch{guestbookWatch()},
		},
		"empty documents around the list": {
			in:   "---\n" + guestbook + "---\n# nothing\n",
			want: []Watch{guestbookWatch(func(w *Watch) { w.Line = 2 })},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse("watches.yaml", []byte(tc.in), known)
			if err != nil {
				t.Fatalf("Parse failed:\n%v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("watches differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadReadsTheFileThatOperatorSDKScaffolds(t *testing.T) {
	got, err := Load(filepath.Join("testdata", "operator-sdk.yaml"), known)
	if err != nil {
		t.Fatal(err)
	}
	want := []Watch{
		guestbookWatch(func(w *Watch) {
			w.GroupVersionKind = schema.GroupVersionKind{Group: "demo.example.com", Version: "v1alpha1", Kind: "Nginx"}
			w.ChartPath, w.Line = "helm-charts/nginx", 2
		}),
		guestbookWatch(func(w *Watch) {
			w.GroupVersionKind = schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Memcached"}
			w.ChartPath, w.Line = "helm-charts/memcached", 6
		}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("watches differ (-want +got):\n%s", diff)
	}
}

func TestLoadSaysWhyAFileCannotBeRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "watches.yaml")
	_, err := Load(missing, known)
	if want := missing + ": cannot be read: no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("the error of the system is lost")
	}
	dir := t.TempDir()
	if _, err := Load(dir, known); err == nil || err.Error() != dir+": cannot be read: is a directory" {
		t.Errorf("got %v for a directory", err)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(large, known); err == nil || err.Error() != large+": larger than 1024 KiB; this is not a watches file" {
		t.Errorf("got %v for a large file", err)
	}
}
