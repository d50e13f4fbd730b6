// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/chartgate/chartgate/internal/dependents"
)

// maxNameLength is Helm's limit of a release name.
const maxNameLength = 53

// hashLength is how many hex digits tell shortened names apart.
const hashLength = 8

// Names returns the release names that a custom resource may have in a
// namespace, best first: its own name where that fits Helm's limit, then a form
// with a hash of what it is, for when the first is too long or belongs to
// somebody else. The same resource always gets the same names, and of resources
// that differ in kind or namespace each gets another hash.
func Names(owner dependents.Owner, namespace string) []string {
	what := owner.GroupKind.String() + "/" + owner.Name
	if owner.Namespace != namespace {
		what = owner.GroupKind.String() + "/" + owner.Namespace + "/" + owner.Name
	}
	sum := sha256.Sum256([]byte(what))
	suffix := "-" + hex.EncodeToString(sum[:])[:hashLength]
	short := owner.Name
	if len(short) > maxNameLength-len(suffix) {
		short = strings.TrimRight(short[:maxNameLength-len(suffix)], "-.")
	}
	hashed := short + suffix
	if len(owner.Name) <= maxNameLength {
		return []string{owner.Name, hashed}
	}
	return []string{hashed}
}

// OwnerLabel is the value of label chartgate.dev/owner on an owner's release in a
// namespace: its kind, and its namespace where that is another one.
func OwnerLabel(owner dependents.Owner, namespace string) string {
	v := strings.ToLower(owner.Kind)
	if owner.Group != "" {
		v += "." + owner.Group
	}
	if owner.Namespace != namespace {
		v += "_" + owner.Namespace
	}
	if len(v) > 63 {
		sum := sha256.Sum256([]byte(v))
		v = v[:63-1-hashLength] + "-" + hex.EncodeToString(sum[:])[:hashLength]
	}
	return v
}
