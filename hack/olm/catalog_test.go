// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
)

func bundleOf(version string, channels ...string) rendered {
	return rendered{
		Version: Version{Channels: channels}, name: "chartgate.v" + version,
		version: semver.MustParse(version), skipRange: "<" + version,
	}
}

func TestChannelsChainTheirVersions(t *testing.T) {
	catalog := Catalog{Package: "chartgate", DefaultChannel: ChannelStable}
	got, err := catalog.channels([]rendered{
		bundleOf("0.1.0", ChannelStable, ChannelCandidate),
		bundleOf("0.2.0-rc.1", ChannelCandidate),
		bundleOf("0.2.0", ChannelStable, ChannelCandidate),
	})
	if err != nil {
		t.Fatal(err)
	}
	entry := func(version, replaces string) any {
		out := map[string]any{"name": "chartgate.v" + version, "skipRange": "<" + version}
		if replaces != "" {
			out["replaces"] = "chartgate.v" + replaces
		}
		return out
	}
	want := []map[string]any{
		{"schema": "olm.channel", "package": "chartgate", "name": ChannelCandidate, "entries": []any{
			entry("0.1.0", ""), entry("0.2.0-rc.1", "0.1.0"), entry("0.2.0", "0.2.0-rc.1"),
		}},
		{"schema": "olm.channel", "package": "chartgate", "name": ChannelStable, "entries": []any{
			entry("0.1.0", ""), entry("0.2.0", "0.1.0"),
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheDefaultChannelHasToHaveAVersion(t *testing.T) {
	catalog := Catalog{Package: "chartgate", DefaultChannel: ChannelStable}
	if got, err := catalog.channels([]rendered{bundleOf("0.2.0-rc.1", ChannelCandidate)}); err == nil {
		t.Errorf("got %v", got)
	}
}

func TestABundlesOwnImageIsMirroredOnce(t *testing.T) {
	got := relatedImages([]any{
		map[string]any{"name": "", "image": ""},
		map[string]any{"name": "manager", "image": "r/chartgate:v1"},
		map[string]any{"name": "", "image": "r/bundle:v1"},
	}, "r/bundle:v1")
	want := []any{
		map[string]any{"name": "", "image": "r/bundle:v1"},
		map[string]any{"name": "manager", "image": "r/chartgate:v1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
