// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dependents watches the objects of releases: it wakes the owner when
// one of them changes, remembers in which state each was last seen to be as its
// release says, and answers from its caches whether they are ready.
//
// Watches select the label that Helm puts on everything it releases, so other
// objects of the same kinds cost no memory. Kinds that have no readiness of
// their own are watched by metadata alone; of others a trimmed body is kept.
package dependents
