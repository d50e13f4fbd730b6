// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command releasecheck refuses a bundle that resources of the version before
// would not survive: a CRD or a served version that is gone, a field that was
// removed, a validation that is tighter.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/chartgate/chartgate/hack/olm"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "releasecheck:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := pflag.NewFlagSet("releasecheck", pflag.ContinueOnError)
	previousDir := flags.String("previous", "", "folder of the previous version's bundle")
	currentDir := flags.String("current", "bundle", "folder of the bundle to release")
	acceptedFile := flags.String("accepted", "hack/releasecheck/accepted.yaml", "file with the changes that are accepted, and why")
	if err := flags.Parse(args); err != nil {
		return err
	}
	previous, err := olm.Read(*previousDir)
	if err != nil {
		return err
	}
	current, err := olm.Read(*currentDir)
	if err != nil {
		return err
	}
	accepted, err := readAccepted(*acceptedFile)
	if err != nil {
		return err
	}
	before, err := previous.CRDs()
	if err != nil {
		return err
	}
	after, err := current.CRDs()
	if err != nil {
		return err
	}
	changes, err := breaking(before, after)
	if err != nil {
		return err
	}
	refused, stale := accepted.filter(changes)
	if len(stale) > 0 {
		return fmt.Errorf("%s accepts what is no change any more, take it out:\n  %s", *acceptedFile, strings.Join(stale, "\n  "))
	}
	if len(refused) > 0 {
		lines := make([]string, 0, len(refused))
		for _, change := range refused {
			lines = append(lines, change.String())
		}
		return fmt.Errorf("resources of %s would not survive the upgrade to %s:\n  %s\nTake it back, or bring a new version of the kind that is served beside the old one",
			previous.Name, current.Name, strings.Join(lines, "\n  "))
	}
	fmt.Printf("%s to %s: %d CRDs compared, resources survive the upgrade (%d changes accepted)\n", previous.Name, current.Name, len(before), len(changes))
	return nil
}
