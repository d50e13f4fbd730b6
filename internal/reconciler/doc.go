// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reconciler takes one custom resource one step: it fetches a snapshot,
// runs the pre-reconcile hooks on it (translate, chart source, change, gates),
// has helm-operator-plugins install, upgrade or repair exactly that snapshot,
// judges the released objects, and writes one status.
package reconciler
