// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// checks are the optional ones that operator-sdk offers and a published operator
// is held to: by operatorhub.io, the community operators, and good practice.
var checks = []string{"suite=operatorframework", "name=operatorhub", "name=community", "name=good-practices"}

// expected are warnings that say nothing of the bundle, with the reason why.
var expected = map[string]string{
	`The "operatorhub" validator is deprecated`: "its checks are part of suite=operatorframework; it is run for catalogs that still use it",
	// The check looks for the API group that v1beta1 was removed of, and can't see versions in rules.
	"Migrate the API(s) for events: ": "rules name API groups, not versions: events.k8s.io/v1 is what is used",
}

// validate fails if any check of operator-sdk has an error or a warning.
func validate(ctx context.Context, operatorSDK, dir string) error {
	var found []string
	for _, check := range checks {
		// It ends with an error as well if a check does; the result tells which.
		out, runErr := command(ctx, "", nil, operatorSDK, "bundle", "validate", dir, "--select-optional", check, "--output", "json-alpha1")
		var result struct {
			Passed  *bool `json:"passed"`
			Outputs []struct {
				Type    string `json:"type"`
				Message string `json:"message"`
			} `json:"outputs"`
		}
		if err := json.Unmarshal(out, &result); err != nil || result.Passed == nil {
			return fmt.Errorf("the check %s gave no result: %w\n%s", check, runErr, out)
		}
		for _, output := range result.Outputs {
			// Some are made by every check.
			message := output.Type + ": " + output.Message
			if output.Type != "info" && !isExpected(message) && !slices.Contains(found, message) {
				found = append(found, message)
			}
		}
		if !*result.Passed && len(found) == 0 { // nothing said why
			return fmt.Errorf("the check %s failed: %s", check, out)
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("%s is not as it should be:\n  %s", dir, strings.Join(found, "\n  "))
	}
	fmt.Printf("%s passes %s\n", dir, strings.Join(checks, ", "))
	return nil
}

func isExpected(message string) bool {
	for part := range expected {
		if strings.Contains(message, part) {
			return true
		}
	}
	return false
}
