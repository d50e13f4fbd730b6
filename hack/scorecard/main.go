// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command scorecard holds Chartgate's own scorecard tests: what the bundle
// promises to those who install it, beyond what operator-sdk's tests know of.
// operator-sdk scorecard runs its image in a Pod for each test, with the bundle
// in /bundle, and reads the result from the log.
//
//	scorecard [--bundle DIR] TEST
//	scorecard [--bundle DIR] --all
//	scorecard --build-image NAME [--arch ARCH,...] [--output DIR] [--push]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/chartgate/chartgate/hack/olm"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scorecard:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var dir string
	var all bool
	var image imageOptions
	flags := pflag.NewFlagSet("scorecard", pflag.ContinueOnError)
	flags.StringVar(&dir, "bundle", "/bundle", "folder of the bundle; the default is where operator-sdk scorecard puts it")
	flags.BoolVar(&all, "all", false, "run all tests, print a line for each, and fail if one fails")
	flags.StringVar(&image.name, "build-image", "", "build the image of this program by this name, and test nothing")
	flags.StringSliceVar(&image.architectures, "arch", []string{runtime.GOARCH}, "architectures of the image, by Go's names")
	flags.StringVar(&image.output, "output", "bin/scorecard-image", "folder for the image")
	flags.BoolVar(&image.push, "push", false, "push the image to the registry that its name says")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if image.name != "" {
		return image.build(ctx)
	}
	names := flags.Args()
	if all {
		names = testNames()
	}
	for _, name := range names {
		if tests[name] == nil {
			return fmt.Errorf("there is no test %q; there are %s", name, strings.Join(testNames(), ", "))
		}
	}
	if !all && len(names) != 1 {
		return fmt.Errorf("one test has to be named; there are %s", strings.Join(testNames(), ", "))
	}
	bundle, err := olm.Read(dir)
	if err != nil {
		return err
	}
	if all {
		return report(out, bundle, names)
	}
	problems, err := tests[names[0]](bundle)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(statusOf(names[0], problems))
}

// report prints how each test ended, for people.
func report(out io.Writer, bundle *olm.Bundle, names []string) error {
	var failed []string
	for _, name := range names {
		problems, err := tests[name](bundle)
		if err != nil {
			return err
		}
		if len(problems) > 0 {
			failed = append(failed, name+":\n    "+strings.Join(problems, "\n    "))
			continue
		}
		if _, err := fmt.Fprintf(out, "%s passes %s\n", bundle.Dir, name); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%s is not as it should be:\n  %s", bundle.Dir, strings.Join(failed, "\n  "))
	}
	return nil
}

// A testStatus is what operator-sdk scorecard reads from a test's log: TestStatus
// of scorecard.operatorframework.io/v1alpha3.
type testStatus struct {
	Results []testResult `json:"results"`
}

type testResult struct {
	Name   string   `json:"name"`
	State  string   `json:"state"`
	Errors []string `json:"errors,omitempty"`
}

func statusOf(name string, problems []string) testStatus {
	result := testResult{Name: name, State: "pass", Errors: problems}
	if len(problems) > 0 {
		result.State = "fail"
	}
	return testStatus{Results: []testResult{result}}
}

func testNames() []string {
	names := make([]string, 0, len(tests))
	for name := range tests {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
