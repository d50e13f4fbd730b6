// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status works out the status of a custom resource and writes it: one
// pure function makes the status from what happened, one patch sends it, and
// a buffering client keeps helm-operator-plugins from writing one of its own.
package status
