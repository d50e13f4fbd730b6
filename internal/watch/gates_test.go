// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import "testing"

func TestGateErrorsNameLineAndSuggestion(t *testing.T) {
	testErrors(t, map[string]errorTest{
		"gates that are not": {
			in: guestbook + `  gates:
  - type: SecretExists
  - name: a
  - name: Ready
    type: SecretExist
  - name: -x
    type: Foo
  - name: b
    type: SecretExists
    checkInterval: 0
  - name: b
    type: SecretExists
    keys: [[a]]
  - approve
`,
			want: []string{
				`:6: "name" is missing in a gate`,
				`:7: "type" is missing in a gate (known: ConfigMapExists, DependencyReady, Expression, ManualApproval, SecretExists, TimeWindow)`,
				`:8: gate name "Ready" is taken by one of Chartgate's own condition types; choose another`,
				`:9: unknown gate type "SecretExist" (known: ConfigMapExists, DependencyReady, Expression, ManualApproval, SecretExists, TimeWindow); did you mean "SecretExists"?`,
				`:10: "-x" is not a gate name: letters, digits and -_. between them, 63 characters at most`,
				`:11: unknown gate type "Foo" (known: ConfigMapExists, DependencyReady, Expression, ManualApproval, SecretExists, TimeWindow)`,
				`:14: "checkInterval" must be 1 to 86400 seconds, not 0`,
				`:15: duplicate gate "b", already on line 12`,
				`:17: "keys" item 1 must be a string, not a list`,
				`:18: "gates" item 7 must be a map of fields, not a string`,
			},
		},
		"fields that a gate's type ignores or lacks": {
			in: guestbook + `  gates:
  - name: a
    type: ManualApproval
    keys: [x]
    accept: [Configmap, ConfigMap, ConfigMap]
  - name: b
    type: Expression
  - name: c
    type: TimeWindow
    schedule: ""
    duration: 0s
    timezone: Europe/Berln
  - name: d
    type: DependencyReady
    perChange: true
    ref: {apiVersion: a/b/c}
  - name: e
    type: ManualApproval
    accept: []
`,
			want: []string{
				`:8: "keys" has no meaning for a gate of type ManualApproval; remove it`,
				`:9: unknown approval source "Configmap" (known: ConfigMap, ReleaseApproval); did you mean "ConfigMap"?`,
				`:9: duplicate approval source "ConfigMap"`,
				`:10: "expression" is missing in a gate of type Expression`,
				`:14: "schedule" is missing in a gate of type TimeWindow`,
				`:15: "duration" must be longer than 0`,
				`:16: unknown timezone "Europe/Berln"; use a name such as Europe/Berlin`,
				`:19: "perChange" has no meaning for a gate of type DependencyReady; remove it`,
				`:20: "a/b/c" is not an apiVersion such as apps/v1`,
				`:23: "accept" is empty, so nothing could approve; leave it out to accept every source`,
			},
		},
	})
}
