// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

const (
	// ResourcesField of spec holds the manifests.
	ResourcesField = "resources"
	// resourcesFile is the template that they become.
	resourcesFile = "templates/resources.yaml"
	// inlineVersion is the version of every chart made of manifests: it has only one.
	inlineVersion = "0.0.0"
	// inlineMemory is how many bytes of such charts are kept.
	inlineMemory = 32 << 20
)

// Inline makes a chart of the manifests in a resource: one template, named as
// the resource, version 0.0.0.
//
// What can be known of the manifests before they are rendered is checked here:
// that the template can be read, and every document that stands in it as it is,
// with no directive in or around it. The rest is checked when it is rendered.
type Inline struct {
	digest func(*chart.Chart) string
	charts *lru[*Chart]
}

var _ Source = (*Inline)(nil)

// NewInline returns a source of charts that are made of manifests.
func NewInline(digest func(*chart.Chart) string) *Inline {
	return &Inline{digest: digest, charts: newLRU[*Chart](inlineMemory)}
}

// Resolve implements Source.
func (i *Inline) Resolve(_ context.Context, obj *unstructured.Unstructured, _ Secrets) (*Chart, error) {
	text, ok, err := unstructured.NestedString(obj.Object, "spec", ResourcesField)
	if err != nil || !ok {
		return nil, stuck(v1alpha1.ReasonInvalidResources, "spec.%s has to be a string of Kubernetes manifests in YAML", ResourcesField)
	}
	sum := sha256.Sum256([]byte(text))
	key := obj.GetName() + "/" + hex.EncodeToString(sum[:])
	if c, ok := i.charts.get(key); ok {
		return c, nil
	}
	if err := checkManifests(text); err != nil {
		return nil, stuck(v1alpha1.ReasonInvalidResources, "spec.%s: %w", ResourcesField, err)
	}
	c, err := chartFrom(obj.GetName(), text)
	if err != nil {
		return nil, stuck(v1alpha1.ReasonInvalidResources, "spec.%s: %w", ResourcesField, err)
	}
	out := &Chart{Chart: c, Digest: i.digest(c)}
	i.charts.put(key, out, int64(2*len(text))+1024)
	return out, nil
}

// chartFrom makes the chart.
func chartFrom(name, text string) (*chart.Chart, error) {
	metadata := &chart.Metadata{
		APIVersion:  chart.APIVersionV2,
		Name:        name,
		Version:     inlineVersion,
		Type:        "application",
		Description: "Manifests of a custom resource",
	}
	if err := metadata.Validate(); err != nil {
		return nil, err
	}
	file, err := yaml.Marshal(metadata)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", chartutil.ChartfileName, err)
	}
	template := &chart.File{Name: resourcesFile, Data: []byte(text)}
	return &chart.Chart{
		Metadata:  metadata,
		Raw:       []*chart.File{{Name: chartutil.ChartfileName, Data: file}, template},
		Templates: []*chart.File{template},
		Values:    map[string]any{},
	}, nil
}
