// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxNameLength is Helm's limit of a release name.
const maxNameLength = 53

// hashLength is how many hex digits tell shortened names apart.
const hashLength = 8

// Names returns the release names that a custom resource may have, best first:
// its own name where that fits Helm's limit, then a form with a hash of its
// kind and name, for when the first is too long or belongs to somebody else.
// The same resource always gets the same names.
func Names(gk schema.GroupKind, name string) []string {
	sum := sha256.Sum256([]byte(gk.String() + "/" + name))
	suffix := "-" + hex.EncodeToString(sum[:])[:hashLength]
	short := name
	if len(short) > maxNameLength-len(suffix) {
		short = strings.TrimRight(short[:maxNameLength-len(suffix)], "-.")
	}
	hashed := short + suffix
	if len(name) <= maxNameLength {
		return []string{name, hashed}
	}
	return []string{hashed}
}

// OwnerLabel is the value of label chartgate.dev/owner for a kind.
func OwnerLabel(gk schema.GroupKind) string {
	v := strings.ToLower(gk.Kind)
	if gk.Group != "" {
		v += "." + gk.Group
	}
	if len(v) > 63 {
		sum := sha256.Sum256([]byte(v))
		v = v[:63-1-hashLength] + "-" + hex.EncodeToString(sum[:])[:hashLength]
	}
	return v
}
