// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chartsource finds the chart of a custom resource: one that comes with
// the operator (Bundled), one that the resource names in a chart repository or
// an OCI registry (Repository), or one made of manifests in the resource itself
// (Inline).
package chartsource

import (
	"context"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Chart is a loaded chart and what identifies it. It is shared between
// releases and must not be modified.
type Chart struct {
	*chart.Chart
	// Digest of the chart's files, in hex.
	Digest string

	// Origin of a chart that was found in a repository; the zero value for all others.
	Origin Origin
	// Recheck is when the resource is to be resolved again though nothing else happens, since another
	// version may be there by then. Zero: no need.
	Recheck time.Duration
	// Stale says why the repository could not be asked lately: the chart is the one that was found last.
	Stale error
}

// Origin says where a chart was found, and when.
type Origin struct {
	// Version that was found.
	Version string
	// Archive is the sha256 of the chart's archive, in hex.
	Archive string
	// SignedBy tells whose signature was verified. Empty where none was asked for.
	SignedBy string
	// Time at which this very archive was found first.
	Time time.Time
}

// Source finds charts.
type Source interface {
	// Resolve returns the chart that the resource is to be released from. Secrets
	// that it needs for that it reads from those given. It is called at every
	// reconcile, so it answers from memory where it can. An Error in what it
	// returns says whether to try again.
	Resolve(ctx context.Context, obj *unstructured.Unstructured, secrets Secrets) (*Chart, error)
}
