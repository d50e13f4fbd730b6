// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command catalog composes a file-based catalog of bundles, from which the
// Operator Lifecycle Manager installs Chartgate and upgrades it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/hack/olm"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "catalog:", err)
		os.Exit(1)
	}
}

// settings are what hack/catalog/catalog.yaml says.
type settings struct {
	Package        string `json:"package"`
	DefaultChannel string `json:"defaultChannel"`
	Description    string `json:"description"`
	Icon           string `json:"icon"`
	// Released are the bundles of the versions that were released, oldest first, by digest.
	Released []string `json:"released"`
}

func run(ctx context.Context, args []string) error {
	flags := pflag.NewFlagSet("catalog", pflag.ContinueOnError)
	opm := flags.String("opm", "bin/opm", "opm")
	output := flags.String("output", "bin/catalog", "folder of the catalog; all else in it is removed")
	config := flags.String("config", "hack/catalog/catalog.yaml", "file with the package's name, default channel, description and icon, and what was released before")
	defaultChannel := flags.String("default-channel", "", "default channel, instead of the configured one")
	bundles := flags.StringArray("bundle", nil, "bundle to add: DIR=IMAGE[,channel=NAME]...[,replaces=NAME]. Without channels: those of its kind of version")
	channels := flags.StringSlice("channel", nil, "channels of the bundles that name none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	content, err := os.ReadFile(*config)
	if err != nil {
		return err
	}
	var s settings
	if err := yaml.UnmarshalStrict(content, &s); err != nil {
		return fmt.Errorf("%s: %w", *config, err)
	}
	icon, err := os.ReadFile(s.Icon)
	if err != nil {
		return fmt.Errorf("%s: icon: %w", *config, err)
	}
	if *defaultChannel != "" {
		s.DefaultChannel = *defaultChannel
	}
	catalog := olm.Catalog{Package: s.Package, DefaultChannel: s.DefaultChannel, Description: s.Description, Icon: icon}
	for _, image := range s.Released {
		catalog.Versions = append(catalog.Versions, olm.Version{Bundle: image})
	}
	for _, flag := range *bundles {
		version, err := parseBundle(flag, *channels)
		if err != nil {
			return err
		}
		catalog.Versions = append(catalog.Versions, version)
	}
	return catalog.Write(ctx, *opm, *output)
}

// parseBundle reads DIR=IMAGE[,channel=NAME]...[,replaces=NAME].
func parseBundle(flag string, channels []string) (olm.Version, error) {
	parts := strings.Split(flag, ",")
	dir, image, ok := strings.Cut(parts[0], "=")
	if !ok || dir == "" || image == "" {
		return olm.Version{}, fmt.Errorf("--bundle %q: want DIR=IMAGE, the folder of a bundle and where its image is", flag)
	}
	version := olm.Version{Bundle: dir, Image: image}
	for _, part := range parts[1:] {
		switch key, value, _ := strings.Cut(part, "="); {
		case key == "channel" && value != "":
			version.Channels = append(version.Channels, value)
		case key == "replaces" && value != "":
			version.Replaces = value
		default:
			return olm.Version{}, fmt.Errorf("--bundle %q: want channel=NAME or replaces=NAME after the first comma, not %q", flag, part)
		}
	}
	if len(version.Channels) == 0 {
		version.Channels = channels
	}
	return version, nil
}
