// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	helmrelease "helm.sh/helm/v3/pkg/release"
)

func TestStoredReleasesTellWhichValuesAreSecret(t *testing.T) {
	c := &chart.Chart{Metadata: &chart.Metadata{Name: "a", Annotations: map[string]string{"b": "c"}}}
	paths := [][]string{{"db", "a.b/c"}, {"list"}}
	stored := withSecrets(c, paths)
	if len(c.Metadata.Annotations) != 1 || stored == c {
		t.Error("the chart, which releases share, was changed")
	}
	data, err := json.Marshal(&helmrelease.Release{Chart: stored})
	if err != nil {
		t.Fatal(err)
	}
	var rel helmrelease.Release
	if err := json.Unmarshal(data, &rel); err != nil {
		t.Fatal(err)
	}
	if got := secretsOf(&rel); !reflect.DeepEqual(got, paths) {
		t.Errorf("secret are %v, want %v", got, paths)
	}
	if withSecrets(c, nil) != c || secretsOf(&helmrelease.Release{Chart: c}) != nil || secretsOf(&helmrelease.Release{}) != nil {
		t.Error("a release without secret values tells of some")
	}
}

func TestSecretValuesAreFoundInWhateverIsThere(t *testing.T) {
	values := map[string]any{
		"db":   map[string]any{"word": "a", "pin": int64(73519264), "on": true, "none": nil},
		"list": []any{"b", map[string]any{"c": float64(73519265)}}, "open": "d",
	}
	got := secretsAt(values, [][]string{{"db"}, {"list"}, {"no", "such"}, {"open", "deeper"}})
	slices.Sort(got)
	if want := []string{"7.3519265e+07", "73519264", "73519265", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestRedactTakesValuesFromSecretsOut(t *testing.T) {
	s := &Session{change: Change{
		Values: map[string]any{"db": map[string]any{"host": "can/ary one\ncanary-line"}, "open": "plain"},
		Secret: [][]string{{"db", "host"}},
	}}
	err := s.Redact(errors.New(`plain "can/ary one\ncanary-line" and can%2Fary+one%0Acanary-line; at canary-line: can/ary one canary-line`))
	if strings.Contains(err.Error(), "ary") || !strings.HasPrefix(err.Error(), "plain ") {
		t.Errorf("error %q", err)
	}
}
