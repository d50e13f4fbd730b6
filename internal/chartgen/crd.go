// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// CRD makes the CustomResourceDefinition of a kind from its chart. The warnings
// say what of the chart's schema it can't express. The chart is not changed.
func CRD(chrt *chart.Chart, opts Options) (*apiextensionsv1.CustomResourceDefinition, []Warning, error) {
	if err := opts.complete(); err != nil {
		return nil, nil, err
	}
	if opts.ValuesPath == SpecPath {
		if err := CheckReservedKeys(chrt, opts.ChartPath); err != nil {
			return nil, nil, err
		}
	}
	crd, err := baseCRD()
	if err != nil {
		return nil, nil, err
	}
	rename(crd, chrt, opts)
	values, required, warnings, err := valuesSchema(chrt, opts)
	if err != nil {
		return nil, nil, err
	}
	grow(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, values, required, opts.valuesFields())
	if err := validate(crd); err != nil {
		return nil, warnings, fmt.Errorf("%s: Kubernetes would refuse the CRD made of it: %w", fileName(chrt, opts.ChartPath, schemaFile), err)
	}
	return crd, warnings, nil
}

// rename makes the base CRD one of the kind.
func rename(crd *apiextensionsv1.CustomResourceDefinition, chrt *chart.Chart, opts Options) {
	crd.Name = opts.Plural + "." + opts.Group
	crd.Annotations = nil // controller-gen's own, and it didn't make this one
	crd.Spec.Group = opts.Group
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{
		Kind:       opts.Kind,
		ListKind:   opts.Kind + "List",
		Plural:     opts.Plural,
		Singular:   strings.ToLower(opts.Kind),
		ShortNames: opts.ShortNames,
		Categories: []string{v1alpha1.Category},
	}
	version := &crd.Spec.Versions[0]
	version.Name = opts.Version
	about := fmt.Sprintf("%s is a release of the Helm chart %s, managed by Chartgate.", opts.Kind, chrt.Name())
	version.Schema.OpenAPIV3Schema.Description = sentence(about, sentence(chrt.Metadata.Description))
}

// valuesSchema is the schema of the chart's values, and the values that a
// resource has to supply.
func valuesSchema(chrt *chart.Chart, opts Options) (props, []requirement, []Warning, error) {
	file := fileName(chrt, opts.ChartPath, schemaFile)
	if chrt.Schema == nil {
		out := open(false)
		out.Type = "object"
		undeclared(chrt, ownValues(chrt), &out)
		return out, nil, []Warning{{File: file, Message: fmt.Sprintf(
			"the chart has no such file: %s takes any values, unchecked; write one to get a schema", opts.ValuesPath)}}, nil
	}
	doc, err := parseDocument(file, chrt.Schema)
	if err != nil {
		return props{}, nil, nil, err
	}
	if err := checkMetaschema(doc); err != nil {
		return props{}, nil, nil, err
	}
	c := newConverter(newParser(doc), opts.Defaults)
	if _, url, known := draftOf(doc.root); !known {
		c.warn("/$schema", "%q is no draft that chartgen knows: read as draft 2020-12", url)
	}
	root := []located{{schema: c.parser.at("")}}
	f := c.settle(root)
	if f.never || f.types&typeObject == 0 {
		return props{}, nil, nil, doc.errorAt("", fmt.Errorf("values are an object, and this schema allows none: give it type object"))
	}
	if len(opts.valuesFields()) == 0 {
		if err := c.checkReserved(f); err != nil {
			return props{}, nil, nil, err
		}
	}
	out := c.root(root, place{def: suppliedValues(chrt), has: true, required: true})
	if out.XPreserveUnknownFields != nil {
		undeclared(chrt, ownValues(chrt), &out)
	}
	return out, c.required, c.warnings, nil
}

// root converts the schema of all values, which are an object whatever else the
// schema would take.
func (c *converter) root(list []located, at place) props {
	object := &schema{types: typeObject}
	return c.structural(append(slices.Clone(list), located{schema: object}), at)
}

// grow puts the schema of the values where they live in the resource.
func grow(root *props, values props, required []requirement, fields []string) {
	spec := root.Properties[SpecPath]
	values.Nullable = false
	values.Default = nil
	if len(fields) == 0 {
		spec = overlay(spec, values)
	} else {
		values.Description = sentence("Values of the chart.")
		for _, field := range slices.Backward(fields[1:]) {
			values = props{Type: "object", Description: "Holds the values of the chart.", Properties: map[string]props{field: values}}
		}
		spec.Properties[fields[0]] = values
	}
	for _, r := range required {
		spec.XValidations = append(spec.XValidations, r.rules(fields)...)
		if !slices.Contains(r.guards, false) && !slices.Contains(root.Required, SpecPath) {
			root.Required = append(root.Required, SpecPath)
		}
	}
	root.Properties[SpecPath] = spec
}

// overlay adds the values to the spec's own fields.
func overlay(spec, values props) props {
	maps.Copy(spec.Properties, values.Properties)
	spec.XPreserveUnknownFields = values.XPreserveUnknownFields
	if values.AdditionalProperties != nil {
		// Free keys beside listed ones: a CRD has one or the other.
		yes := true
		spec.XPreserveUnknownFields = &yes
	}
	spec.AllOf, spec.AnyOf, spec.OneOf, spec.Not = values.AllOf, values.AnyOf, values.OneOf, values.Not
	return spec
}
