// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// maxSize is the size that a CRD in JSON had better not reach: etcd refuses
// objects of 1.5 MiB.
const maxSize = 1 << 20

// Marshal writes a CRD as YAML, as controller-gen does: without status, the same
// bytes for the same CRD.
func Marshal(crd *apiextensionsv1.CustomResourceDefinition) ([]byte, error) {
	data, err := json.Marshal(crd)
	if err != nil {
		return nil, fmt.Errorf("write CRD %s: %w", crd.Name, err)
	}
	if len(data) > maxSize {
		return nil, fmt.Errorf("CRD %s has %d bytes, more than the %d that a cluster surely stores: shorten descriptions in %s, or leave fields open there", crd.Name, len(data), maxSize, schemaFile)
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("write CRD %s: %w", crd.Name, err)
	}
	delete(object, "status")
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	out, err := yaml.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("write CRD %s: %w", crd.Name, err)
	}
	return append([]byte("---\n"), out...), nil
}

// FileName is the name of a CRD's file, as controller-gen gives it.
func FileName(crd *apiextensionsv1.CustomResourceDefinition) string {
	return fmt.Sprintf("%s_%s.yaml", crd.Spec.Group, crd.Spec.Names.Plural)
}
