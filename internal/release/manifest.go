// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// parseManifest reads the objects of a YAML stream, in order, lists flattened.
// Integers stay integers. Empty documents are passed over.
func parseManifest(r io.Reader) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	dec := utilyaml.NewYAMLToJSONDecoder(r)
	for i := 1; ; i++ {
		var raw runtime.RawExtension
		if err := dec.Decode(&raw); err != nil {
			if errors.Is(err, io.EOF) {
				return objects, nil
			}
			return nil, fmt.Errorf("document %d of the manifest: %w", i, err)
		}
		raw.Raw = bytes.TrimSpace(raw.Raw)
		if len(raw.Raw) == 0 || bytes.Equal(raw.Raw, []byte("null")) || bytes.Equal(raw.Raw, []byte("{}")) {
			continue
		}
		obj, _, err := unstructured.UnstructuredJSONScheme.Decode(raw.Raw, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("document %d of the manifest: %w", i, err)
		}
		switch o := obj.(type) {
		case *unstructured.Unstructured:
			objects = append(objects, o)
		case *unstructured.UnstructuredList:
			for j := range o.Items {
				objects = append(objects, &o.Items[j])
			}
		}
	}
}

func parseManifestString(manifest string) ([]*unstructured.Unstructured, error) {
	return parseManifest(strings.NewReader(manifest))
}
