// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package olm runs the real Operator Lifecycle Manager for tests.
//
// There are two ways to it:
//
//   - [Install] puts OLM into a cluster as its users have it: OLM's own Helm
//     chart and images, catalogs and bundles as images, an unpack Job for every
//     bundle. It needs a node that runs containers and a registry.
//   - [StartQuick] runs OLM's two operators as processes of this machine, next
//     to a control plane with simulated nodes. Bundles are part of the catalog,
//     so an operator is there in seconds. It fits what OLM decides (upgrade
//     graphs, approvals, install modes), not what containers do.
//
// Both give an [OLM], whose methods do what a person does with kubectl:
//
//	o.OperatorGroup(ctx, namespace)
//	o.CatalogSource(ctx, olm.CatalogSource{Namespace: namespace, Name: "test", Image: image})
//	o.Subscribe(ctx, olm.Subscription{Namespace: namespace, Package: "tiny", Channel: "stable", Source: "test"})
//	csv, err := o.WaitInstalled(ctx, namespace, "tiny")
//
// What waits, waits until ctx ends, and then tells what OLM's objects, the
// Pods and the latest events say.
package olm
