// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/chartgate/chartgate/hack/olm"
)

func TestARepositoryHasNeitherTagNorDigest(t *testing.T) {
	for image, want := range map[string]string{
		"ghcr.io/chartgate/chartgate:v1":        "ghcr.io/chartgate/chartgate",
		"localhost:5000/chartgate":              "localhost:5000/chartgate",
		"localhost:5000/chartgate:v1@sha256:00": "localhost:5000/chartgate",
	} {
		if got := repository(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}

func TestResourcesAreWhatTheChartsMake(t *testing.T) {
	got, err := chartResources("../../watches.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := []olm.Resource{
		{Kind: "Deployment", Version: "v1"}, {Kind: "Ingress", Version: "v1"}, {Kind: "PersistentVolumeClaim", Version: "v1"},
		{Kind: "Secret", Version: "v1"}, {Kind: "Service", Version: "v1"}, {Kind: "ServiceAccount", Version: "v1"},
	}
	if !slices.Equal(got["Guestbook"], want) {
		t.Errorf("%v, want %v", got["Guestbook"], want)
	}
}
