// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"strings"
	"testing"
)

func TestFieldErrorsNameLineAndSuggestion(t *testing.T) {
	testErrors(t, map[string]errorTest{
		"a misspelt field": {
			in:   guestbook + "  reconcilPeriod: 1m\n",
			want: []string{`:5: unknown field "reconcilPeriod"; did you mean "reconcilePeriod"?`},
		},
		"a field in another case": {
			in:   guestbook + "  SELECTOR: {}\n",
			want: []string{`:5: unknown field "SELECTOR"; did you mean "selector"?`},
		},
		"exchanged letters": {
			in:   guestbook + "  gaets: []\n",
			want: []string{`:5: unknown field "gaets"; did you mean "gates"?`},
		},
		"a field near nothing": {
			in:   guestbook + "  playbook: x.yml\n",
			want: []string{`:5: unknown field "playbook"`},
		},
		"a misspelt field is not missing as well": {
			in: "- group: a.dev\n  verison: v1\n  kin: Foo\n  chart: x\n",
			want: []string{
				`:2: unknown field "verison"; did you mean "version"?`,
				`:3: unknown field "kin"; did you mean "kind"?`,
			},
		},
		"unknown fields on every level": {
			in: guestbook + `  selector:
    matchLabel: {}
    matchExpressions:
    - key: a
      operator: Exists
      vaules: []
  rollout:
    maxParalel: 3
  gates:
  - name: g
    type: ConfigMapExists
    mandatroy: false
    ref:
      namespcae: x
`,
			want: []string{
				`:6: unknown field "matchLabel"; did you mean "matchLabels"?`,
				`:10: unknown field "vaules"; did you mean "values"?`,
				`:12: unknown field "maxParalel"; did you mean "maxParallel"?`,
				`:16: unknown field "mandatroy"; did you mean "mandatory"?`,
				`:18: unknown field "namespcae"; did you mean "namespace"?`,
			},
		},
		"duplicate fields": {
			in: guestbook + "  kind: Other\n  selector:\n    matchLabels:\n      a: b\n      a: c\n",
			want: []string{
				`:5: duplicate field "kind", already set on line 3`,
				`:9: duplicate field "a", already set on line 8`,
			},
		},
		"a key that is no name": {
			in:   guestbook + "  ? [a]\n  : b\n",
			want: []string{`:5: a field name must be a string, not a list`},
		},
		"an entry that is no map": {
			in: guestbook + "- Guestbook\n- [a]\n-\n",
			want: []string{
				`:5: an entry must be a map of fields, not a string`,
				`:6: an entry must be a map of fields, not a list`,
				`:7: an entry must be a map of fields, not null`,
			},
		},
	})
}

func TestKindAndChartErrorsNameLineAndSuggestion(t *testing.T) {
	testErrors(t, map[string]errorTest{
		"what is missing": {
			in: "- group: a.dev\n- version: ''\n  kind: ''\n  chart: ' '\n",
			want: []string{
				`:1: "version" is missing, such as v1alpha1`,
				`:1: "kind" is missing, such as Guestbook`,
				`:1: "chart" is missing; name the folder of the chart, or another source`,
				`:2: "version" is empty, such as v1alpha1`,
				`:3: "kind" is empty, such as Guestbook`,
				`:4: "chart" is empty; name the folder of the chart, or another source`,
			},
		},
		"names that are none": {
			in: "- group: Apps_Example.com\n  version: V1Alpha1\n  kind: guest-book\n  chart: x\n" +
				"- group: Example.com\n  version: 1alpha\n  kind: 9Kind\n  chart: x\n",
			want: []string{
				`:1: "Apps_Example.com" is not an API group, which is a DNS name such as apps.example.com`,
				`:2: "V1Alpha1" is not an API version such as v1alpha1; did you mean "v1alpha1"?`,
				`:3: "guest-book" is not a kind in CamelCase such as Guestbook; did you mean "GuestBook"?`,
				`:5: "Example.com" is not an API group, which is a DNS name such as apps.example.com; did you mean "example.com"?`,
				`:6: "1alpha" is not an API version such as v1alpha1`,
				`:7: "9Kind" is not a kind in CamelCase such as Guestbook`,
			},
		},
		"a kind that is watched twice": {
			in:   guestbook + "- {group: apps.chartgate.dev, version: v1, kind: Guestbook, chart: x}\n" + guestbook,
			want: []string{`:6: apps.chartgate.dev/v1alpha1 Guestbook is already watched by the entry on line 1`},
		},
		"an entry that is repeated by alias": {
			in:   strings.Replace(guestbook, "- ", "- &a\n  ", 1) + "- *a\n",
			want: []string{`:6: apps.chartgate.dev/v1alpha1 Guestbook is already watched by the entry on line 1`},
		},
		"a chart where the source has its own": {
			in: guestbook + "  source: Repository\n" +
				strings.Replace(guestbook, "Guestbook", "Other", 1) + "  source: Inline\n",
			want: []string{
				`:4: "chart" is not allowed with source Repository, which takes the chart from spec.chart of each resource; remove it`,
				`:9: "chart" is not allowed with source Inline, which takes the chart from the manifests of each resource; remove it`,
			},
		},
		"a chart that is a URL": {
			in: "- group: a.dev\n  version: v1\n  kind: Foo\n  chart: oci://ghcr.io/x/y\n",
			want: []string{`:4: "chart" must be a path, not a URL; put the chart into helm-charts/, or use source Repository, ` +
				`where each resource names its chart`},
		},
		"an unknown source": {
			in:   guestbook + "  source: repository\n",
			want: []string{`:5: unknown source "repository" (known: Bundled, Inline, Repository); did you mean "Repository"?`},
		},
	})
}

func TestValueErrorsNameLineAndSuggestion(t *testing.T) {
	testErrors(t, map[string]errorTest{
		"wrong types": {
			in: `- group: [a]
  version: 1
  kind: {a: b}
  chart: 7
  watchDependentResources: "true"
  allowCrossNamespaceRefs: ture
  maxConcurrentReconciles: "2"
  reconcilePeriod: [1m]
  selector: team=a
  gates: {name: a}
  rollout: 5
  overrideValues: [a]
`,
			want: []string{
				`:1: "group" must be a string, not a list`,
				`:2: "version" must be a string, not a number`,
				`:3: "kind" must be a string, not a map`,
				`:4: "chart" must be a string, not a number`,
				`:5: "watchDependentResources" must be true or false, not a string in quotes`,
				`:6: "allowCrossNamespaceRefs" must be true or false, not a string; did you mean "true"?`,
				`:7: "maxConcurrentReconciles" must be a whole number, not a string in quotes`,
				`:8: "reconcilePeriod" must be a duration such as 1m30s, not a list`,
				`:9: "selector" must be a map of fields, not a string`,
				`:10: "gates" must be a list, not a map`,
				`:11: "rollout" must be a map of fields, not a number`,
				`:12: "overrideValues" must be a map from paths such as image.tag to values, not a list`,
			},
		},
		"bad numbers": {
			in: guestbook + `  maxConcurrentReconciles: 0
  rollout:
    maxParallel: -1
    maxFailures: 1.5
- {version: v1, kind: A, chart: x, maxConcurrentReconciles: 99999999999999999999}
`,
			want: []string{
				`:5: "maxConcurrentReconciles" must be at least 1, not 0`,
				`:7: "maxParallel" must be at least 1, not -1`,
				`:8: "maxFailures" must be a whole number, not "1.5"`,
				`:9: "maxConcurrentReconciles" must be a whole number, not "99999999999999999999"`,
			},
		},
		"bad durations": {
			in: guestbook + "  reconcilePeriod: 30\n" +
				"- {version: v1, kind: A, chart: x, reconcilePeriod: 5 M}\n" +
				"- {version: v1, kind: B, chart: x, reconcilePeriod: -5s}\n" +
				"- {version: v1, kind: C, chart: x, reconcilePeriod: soon}\n",
			want: []string{
				`:5: "reconcilePeriod" must be a duration such as 1m30s, not "30"; did you mean "30s"?`,
				`:6: "reconcilePeriod" must be a duration such as 1m30s, not "5 M"; did you mean "5m"?`,
				`:7: "reconcilePeriod" must not be negative; did you mean "5s"?`,
				`:8: "reconcilePeriod" must be a duration such as 1m30s, not "soon"`,
			},
		},
		"bad values paths": {
			in: guestbook + "  valuesPath: values\n" +
				"- {version: v1, kind: A, chart: x, valuesPath: Spec.values}\n" +
				"- {version: v1, kind: B, chart: x, valuesPath: spec..values}\n" +
				"- {version: v1, kind: C, chart: x, valuesPath: spec.gates}\n" +
				"- {version: v1, kind: D, chart: x, valuesPath: spec.release.values}\n" +
				"- {version: v1, kind: E, chart: x, valuesPath: status}\n" +
				"- {version: v1, kind: F, chart: x, valuesPath: spec.}\n",
			want: []string{
				`:5: "values" is not a path of field names that starts with spec, such as spec.values; did you mean "spec.values"?`,
				`:6: "Spec.values" is not a path of field names that starts with spec, such as spec.values; did you mean "spec.values"?`,
				`:7: "spec..values" is not a path of field names that starts with spec, such as spec.values`,
				`:8: spec.gates holds Chartgate's own settings, not values`,
				`:9: spec.release holds Chartgate's own settings, not values`,
				`:10: "status" is not a path of field names that starts with spec, such as spec.values; did you mean "spec.status"?`,
				`:11: "spec." is not a path of field names that starts with spec, such as spec.values; did you mean "spec"?`,
			},
		},
		"an unknown translator, dry-run option and ServiceAccount": {
			in: guestbook + "  translator: webap\n  dryRunOption: Server\n  serviceAccount: ns/deployer\n",
			want: []string{
				`:5: unknown translator "webap" (known: database, webapp); did you mean "webapp"?`,
				`:6: unknown dryRunOption "Server" (known: client, none, server); did you mean "server"?`,
				`:7: "ns/deployer" is not the name of a ServiceAccount: lower-case letters, digits, dashes and dots, and no namespace`,
			},
		},
		"a selector that selects nothing it could": {
			in: guestbook + `  selector:
    matchLabels:
      team: [a]
      "a b": c
    matchExpressions:
    - key: a
      operator: in
      values: [b]
    - key: a
      operator: In
    - operator: Exists
    - key: b
    - key: c
      operator: Exists
      values: [d]
    - text
`,
			want: []string{
				`:7: "team" in "matchLabels" must be a string, not a list`,
				`:8: not a label selector: key: Invalid value: "a b": name part must consist of alphanumeric characters, ` +
					`'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or ` +
					`'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
				`:11: "in" is not an operator of a selector: use In, NotIn, Exists or DoesNotExist; did you mean "In"?`,
				`:13: not a label selector: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty`,
				`:15: "key" is missing in a term of the selector`,
				`:16: "operator" is missing in a term of the selector: use In, NotIn, Exists or DoesNotExist`,
				`:17: not a label selector: values: Invalid value: ["d"]: values set must be empty for exists and does not exist`,
				`:20: "matchExpressions" item 6 must be a map of fields, not a string`,
			},
		},
	})
}
