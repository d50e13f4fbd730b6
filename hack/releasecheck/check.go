// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/crdify/pkg/config"
	"sigs.k8s.io/crdify/pkg/runner"
	"sigs.k8s.io/crdify/pkg/validators/version"
	"sigs.k8s.io/yaml"
)

// A change is one that resources, or those who write them, may not survive.
type change struct {
	crd, version, property, check, message string
}

func (c change) String() string {
	where := strings.TrimSpace(c.crd + " " + c.version)
	if c.property != "" {
		where += " " + c.property
	}
	return fmt.Sprintf("%s: %s: %s", where, c.check, c.message)
}

// breaking lists what breaks between two sets of CRDs, in order.
func breaking(before, after map[string]*apiextensionsv1.CustomResourceDefinition) ([]change, error) {
	cfg := &config.Config{Validations: []config.ValidationConfig{
		// A further value to choose from takes none away.
		{Name: "enum", Enforcement: config.EnforcementPolicyError, Configuration: map[string]any{"additionPolicy": "Allow"}},
		{Name: "description", Enforcement: config.EnforcementPolicyNone},
	}}
	if err := config.ValidateConfig(cfg); err != nil {
		return nil, err
	}
	comparison, err := runner.New(cfg, runner.DefaultRegistry())
	if err != nil {
		return nil, err
	}
	var out []change
	for _, name := range slices.Sorted(maps.Keys(before)) {
		was, is := before[name], after[name]
		if is == nil {
			out = append(out, change{crd: name, check: "removed", message: "the CustomResourceDefinition is gone, and its resources with it"})
			continue
		}
		out = append(out, names(was, is)...)
		results := comparison.Run(was, is)
		for _, result := range results.CRDValidation {
			for _, message := range result.Errors {
				out = append(out, change{crd: name, check: result.Name, message: message})
			}
		}
		out = append(out, properties(name, results.SameVersionValidation)...)
		out = append(out, properties(name, results.ServedVersionValidation)...)
	}
	slices.SortFunc(out, func(a, b change) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(out), nil
}

// names finds what crdify doesn't look at without a cluster: versions that are
// no longer served, and names by which resources were reached.
func names(was, is *apiextensionsv1.CustomResourceDefinition) []change {
	var out []change
	if was.Spec.Names.Kind != is.Spec.Names.Kind {
		out = append(out, change{crd: was.Name, check: "names", message: fmt.Sprintf("kind %s became %s", was.Spec.Names.Kind, is.Spec.Names.Kind)})
	}
	for _, short := range was.Spec.Names.ShortNames {
		if !slices.Contains(is.Spec.Names.ShortNames, short) {
			out = append(out, change{crd: was.Name, check: "names", message: fmt.Sprintf("short name %s is gone", short)})
		}
	}
	for _, v := range was.Spec.Versions {
		i := slices.IndexFunc(is.Spec.Versions, func(n apiextensionsv1.CustomResourceDefinitionVersion) bool { return n.Name == v.Name })
		switch {
		case i < 0:
			out = append(out, change{crd: was.Name, version: v.Name, check: "version", message: "the version is gone, and resources may be stored in it"})
		case v.Served && !is.Spec.Versions[i].Served:
			out = append(out, change{crd: was.Name, version: v.Name, check: "version", message: "the version is no longer served"})
		}
	}
	return out
}

func properties(crd string, results []version.VersionedPropertyComparisonResult) []change {
	var out []change
	for _, result := range results {
		for _, property := range result.PropertyComparisons {
			for _, comparison := range property.ComparisonResults {
				for _, message := range comparison.Errors {
					out = append(out, change{crd: crd, version: result.Version, property: property.Property, check: comparison.Name, message: message})
				}
			}
		}
	}
	return out
}

// An acceptance names a change that is all right, with the reason.
type acceptance struct {
	CRD      string `json:"crd"`
	Version  string `json:"version"`
	Property string `json:"property"`
	Check    string `json:"check"`
	Reason   string `json:"reason"`
}

type acceptances []acceptance

func readAccepted(file string) (acceptances, error) {
	content, err := os.ReadFile(file) //nolint:gosec // the file that the caller names
	if err != nil {
		return nil, err
	}
	var out acceptances
	if err := yaml.UnmarshalStrict(content, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i, a := range out {
		if a.CRD == "" || a.Check == "" || a.Reason == "" {
			return nil, fmt.Errorf("%s: entry %d needs crd, check and reason", file, i+1)
		}
	}
	return out, nil
}

func (a acceptance) covers(c change) bool {
	return a.CRD == c.crd && a.Version == c.version && a.Property == c.property && a.Check == c.check
}

// filter returns the changes that are not accepted, and the acceptances that
// no change needs.
func (a acceptances) filter(changes []change) (refused []change, stale []string) {
	for _, c := range changes {
		if !slices.ContainsFunc(a, func(one acceptance) bool { return one.covers(c) }) {
			refused = append(refused, c)
		}
	}
	for _, one := range a {
		if !slices.ContainsFunc(changes, one.covers) {
			stale = append(stale, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", one.CRD, one.Version, one.Property, one.Check)))
		}
	}
	return refused, stale
}
