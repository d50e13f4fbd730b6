// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chartsource finds the chart of a custom resource.
package chartsource

import (
	"context"

	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Chart is a loaded chart and what identifies it. It is shared between
// releases and must not be modified.
type Chart struct {
	*chart.Chart
	// Digest of the chart's files, in hex.
	Digest string
}

// Source finds charts.
type Source interface {
	// Resolve returns the chart that the resource is to be released from. It is
	// called at every reconcile, so it answers from memory where it can.
	Resolve(ctx context.Context, obj *unstructured.Unstructured) (*Chart, error)
}
