// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e installs the operator the way its users do, on a real node: a
// catalog, a Subscription, InstallPlans, pods that run. Its tests need Linux
// and root, and the build tag e2e; make e2e runs them.
//
// The tests share one cluster and one OLM, and run one after the other: the
// operator's kinds are the cluster's, so two installations must not overlap.
package e2e
