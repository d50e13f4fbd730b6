// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chartgate/chartgate/hack/olm"
)

func TestBundlesAreReadFromTheCommandLine(t *testing.T) {
	for flag, want := range map[string]olm.Version{
		"bundle=localhost:5000/bundle:v1":                           {Bundle: "bundle", Image: "localhost:5000/bundle:v1", Channels: []string{"default"}},
		"b=r/b@sha256:00,channel=stable,channel=fast,replaces=a.v1": {Bundle: "b", Image: "r/b@sha256:00", Channels: []string{"stable", "fast"}, Replaces: "a.v1"},
	} {
		got, err := parseBundle(flag, []string{"default"})
		if err != nil {
			t.Errorf("%s: %v", flag, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", flag, diff)
		}
	}
	for _, flag := range []string{"", "bundle", "=image", "bundle=", "bundle=image,stable", "bundle=image,channel="} {
		if got, err := parseBundle(flag, nil); err == nil {
			t.Errorf("%q: %+v", flag, got)
		}
	}
}
