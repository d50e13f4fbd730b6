// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateInternal runs the API server's own checks of a CRD, structural schema included.
func validateInternal(ctx context.Context, crd *apiextensions.CustomResourceDefinition) error {
	errs := crdvalidation.ValidateCustomResourceDefinition(ctx, crd)
	for i, version := range crd.Spec.Versions {
		path := field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema")
		schema := version.Schema
		if schema == nil {
			schema = crd.Spec.Validation
		}
		structural, err := structuralschema.NewStructural(schema.OpenAPIV3Schema)
		if err != nil {
			return err
		}
		errs = append(errs, structuralschema.ValidateStructural(path, structural)...)
	}
	return errs.ToAggregate()
}
