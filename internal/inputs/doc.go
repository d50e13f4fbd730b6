// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inputs watches the objects that gates look at, and the Secrets and
// ConfigMaps that charts are found with and values come from: it answers reads
// from its caches, and wakes the resources that refer to an object when that
// changes, and no others.
//
// There is one watch for each identity, kind and namespace that a gate refers
// to. It starts when the first gate reads from it and ends when no gate refers
// to it any more. Of ConfigMaps and Secrets the metadata is watched; one that a
// gate refers to is read once for each of its resource versions, and of a Secret
// that only gates refer to, the names of its keys are all that is kept. While nothing changes, reads and wakes
// make no request.
//
// What can't be watched (the right to list is missing, say) is read at each
// evaluation instead, until the watch can be established after all.
package inputs
