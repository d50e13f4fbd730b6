// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app puts the operator together: flags become options, options become
// a manager. It is the only package that knows all the others.
package app
