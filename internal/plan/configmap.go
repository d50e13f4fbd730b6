// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// Label with value LabelValue marks the ConfigMaps that hold plans.
const (
	Label      = "chartgate.dev/plan"
	LabelValue = "true"
)

// Keys of the ConfigMap.
const (
	KeyDigest  = "digest"
	KeySummary = "summary"
	KeyAdded   = "added"
	KeyChanged = "changed"
	KeyRemoved = "removed"
	KeyDiff    = "diff"
)

const (
	// MaxSize bounds the keys and values of the ConfigMap, in bytes.
	MaxSize = 256 << 10
	// maxName is the API server's limit of a ConfigMap's name.
	maxName = 253
	// maxLabel is its limit of a label's value.
	maxLabel = 63
	// hashLength is how many hex digits tell shortened names apart.
	hashLength = 8
)

// Names returns the names that the ConfigMap for a resource's plan may have,
// best first: <kind>-<name>-plan, in lower case, where that fits; then a form
// with a hash of the kind, its group and the name, for when the first is too
// long or belongs to somebody else. The same resource always gets the same names.
func Names(kind schema.GroupKind, name string) []string {
	const suffix = "-plan"
	plain := strings.ToLower(kind.Kind) + "-" + name
	sum := sha256.Sum256([]byte(kind.String() + "/" + name))
	tail := "-" + hex.EncodeToString(sum[:])[:hashLength] + suffix
	short := plain
	if len(short) > maxName-len(tail) {
		short = strings.TrimRight(short[:maxName-len(tail)], "-.")
	}
	if len(plain)+len(suffix) <= maxName {
		return []string{plain + suffix, short + tail}
	}
	return []string{short + tail}
}

// ConfigMap returns the ConfigMap that shows the plan, under one of the Names of
// its owner. The owner states its kind, and has been created. A diff that is too
// long is cut, and says so; the counts are always those of the whole change.
func ConfigMap(owner *unstructured.Unstructured, name string, p Plan) *corev1.ConfigMap {
	data := map[string]string{
		KeyDigest:  p.Digest,
		KeySummary: p.Summary(),
		KeyAdded:   strconv.Itoa(p.Added),
		KeyChanged: strconv.Itoa(p.Changed),
		KeyRemoved: strconv.Itoa(p.Removed),
	}
	size := len(KeyDiff)
	for key, value := range data {
		size += len(key) + len(value)
	}
	data[KeyDiff] = cut(p.Diff, MaxSize-size)
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       owner.GetNamespace(),
			Name:            name,
			Labels:          map[string]string{Label: LabelValue, v1alpha1.LabelOwner: ownerLabel(owner.GroupVersionKind().GroupKind())},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())},
		},
		Data: data,
	}
}

// Ours tells whether the ConfigMap is one that holds the owner's plan: it has the
// label, and this very owner controls it. No other is to be written or deleted.
func Ours(found metav1.Object, owner metav1.Object) bool {
	return found.GetLabels()[Label] == LabelValue && owner.GetUID() != "" && metav1.IsControlledBy(found, owner)
}

// Same tells whether the ConfigMap shows what the wanted one shows, so that it need not be written.
func Same(found, wanted *corev1.ConfigMap) bool {
	if len(found.Data) != len(wanted.Data) || len(found.BinaryData) > 0 {
		return false
	}
	for key, value := range wanted.Data {
		if have, ok := found.Data[key]; !ok || have != value {
			return false
		}
	}
	return true
}

// ownerLabel is the lower-case kind.group, as on release Secrets.
func ownerLabel(kind schema.GroupKind) string {
	v := strings.ToLower(kind.Kind)
	if kind.Group != "" {
		v += "." + kind.Group
	}
	if len(v) > maxLabel {
		sum := sha256.Sum256([]byte(v))
		v = v[:maxLabel-1-hashLength] + "-" + hex.EncodeToString(sum[:])[:hashLength]
	}
	return v
}

// cut shortens the diff to the size, at the end of a line where there is one.
func cut(diff string, size int) string {
	if len(diff) <= size {
		return diff
	}
	const note = "# CUT: %d of %d bytes of the difference are shown. The counts beside it are those of the whole change.\n"
	keep := size - len(fmt.Sprintf(note, len(diff), len(diff)))
	if i := strings.LastIndexByte(diff[:keep], '\n'); i >= 0 {
		keep = i + 1
	} else {
		for keep > 0 && !utf8.RuneStart(diff[keep]) {
			keep--
		}
	}
	return diff[:keep] + fmt.Sprintf(note, keep, len(diff))
}
