// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	_ "embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed base/apps.chartgate.dev_bases.yaml
var baseYAML []byte

// baseCRD is what every kind starts from: gates, release settings, status and
// printer columns. controller-gen makes it from package api/base.
func baseCRD() (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(baseYAML, crd); err != nil {
		return nil, fmt.Errorf("read the embedded base CRD: %w", err)
	}
	if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Schema == nil || crd.Spec.Versions[0].Schema.OpenAPIV3Schema == nil {
		return nil, fmt.Errorf("the embedded base CRD has no schema: run make manifests")
	}
	return crd, nil
}
