// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chartgen turns a Helm chart into the parts of an operator that
// depend on it. Its first part is the CustomResourceDefinition: the chart's
// values.schema.json, grown onto the settings and the status that all Chartgate
// kinds share.
//
// A generated schema never refuses a custom resource that Helm, with the
// chart's own schema, would take. Where a construct of JSON schema can't be
// expressed, the field is kept open and a Warning says so; Helm still checks the
// values against the chart's schema when the release is made.
package chartgen

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// SpecPath is the default of Options.ValuesPath: the values are the spec itself.
const SpecPath = "spec"

// DefaultsMode says which defaults of the chart become defaults of the CRD. All
// others are told in the description of their field.
type DefaultsMode string

// The defaults modes.
const (
	// DefaultsMissing takes over a default that the schema declares and that
	// neither values.yaml nor valuesFrom can supply: those within lists and
	// those that values.yaml lacks.
	DefaultsMissing DefaultsMode = "missing"
	// DefaultsAll takes over every default that the schema declares.
	DefaultsAll DefaultsMode = "all"
	// DefaultsNone takes over no default.
	DefaultsNone DefaultsMode = "none"
)

// Options of a generated CRD.
type Options struct {
	// Kind in CamelCase, such as Guestbook. Required.
	Kind string
	// Plural name of the resource. Default: guessed from the kind.
	Plural string
	// ShortNames of the resource.
	ShortNames []string
	// Group of the API. Default: apps.chartgate.dev.
	Group string
	// Version of the API. Default: v1alpha1.
	Version string
	// ValuesPath is where the chart's values live in the resource: spec, or a
	// field below it such as spec.values. Default: spec.
	ValuesPath string
	// Defaults says which defaults become defaults of the CRD. Default: DefaultsMissing.
	Defaults DefaultsMode
	// ChartPath names the chart in messages. Default: the chart's name.
	ChartPath string
}

// Warning says what of a chart's schema the CRD can't express.
type Warning struct {
	// File that the warning is about, such as helm-charts/guestbook/values.schema.json.
	File string
	// Line in the file, from 1. 0 where there is none.
	Line int
	// Pointer is the JSON pointer of the construct in the file.
	Pointer string
	// Message says what can't be expressed, and what became of the field.
	Message string
}

// String is the warning in one line.
func (w Warning) String() string {
	where := w.File
	if w.Line > 0 {
		where = fmt.Sprintf("%s:%d", w.File, w.Line)
	}
	if w.Pointer != "" {
		where += ": " + w.Pointer
	}
	return where + ": " + w.Message
}

var (
	kindPattern  = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
	fieldPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)
)

// complete checks the options and fills in their defaults.
func (o *Options) complete() error {
	if o.Kind == "" {
		return fmt.Errorf("no kind given: name the kind, such as --kind Guestbook")
	}
	if !kindPattern.MatchString(o.Kind) {
		return fmt.Errorf("kind %q is no kind name: use CamelCase, such as Guestbook", o.Kind)
	}
	if o.Group == "" {
		o.Group = v1alpha1.GroupVersion.Group
	}
	if o.Version == "" {
		o.Version = v1alpha1.GroupVersion.Version
	}
	if o.Plural == "" {
		plural, _ := meta.UnsafeGuessKindToResource(runtimeschema.GroupVersionKind{Group: o.Group, Version: o.Version, Kind: o.Kind})
		o.Plural = plural.Resource
	}
	switch o.Defaults {
	case "":
		o.Defaults = DefaultsMissing
	case DefaultsMissing, DefaultsAll, DefaultsNone:
	default:
		return fmt.Errorf("defaults mode %q is unknown: use missing, all or none", o.Defaults)
	}
	if o.ValuesPath == "" {
		o.ValuesPath = SpecPath
	}
	fields := strings.Split(o.ValuesPath, ".")
	if fields[0] != SpecPath {
		return fmt.Errorf("values path %q does not begin with spec: use spec, or a field below it such as spec.values", o.ValuesPath)
	}
	for i, field := range fields[1:] {
		if !fieldPattern.MatchString(field) {
			return fmt.Errorf("values path %q: %q is no field name; use a path such as spec.values", o.ValuesPath, field)
		}
		if i == 0 && isReserved(field) {
			return fmt.Errorf("values path %q: spec.%s holds Chartgate's own settings; use a path such as spec.values", o.ValuesPath, field)
		}
	}
	return nil
}

// valuesFields are the fields from the spec down to the values.
func (o *Options) valuesFields() []string {
	return strings.Split(o.ValuesPath, ".")[1:]
}

func isReserved(key string) bool {
	return key == v1alpha1.GatesField || key == v1alpha1.ReleaseField
}
