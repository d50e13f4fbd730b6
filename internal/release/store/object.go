// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Labels of release Secrets, as Helm names them.
const (
	labelName       = "name"
	labelOwner      = "owner"
	labelStatus     = "status"
	labelVersion    = "version"
	labelCreatedAt  = "createdAt"
	labelModifiedAt = "modifiedAt"

	ownerHelm      = "helm"
	ownerChartgate = "chartgate"
)

// LabelParts on a release Secret holds the first 10 hex digits of the content's
// checksum when the content is in part Secrets. The helm CLI cannot read those.
const LabelParts = "chartgate.dev/parts"

// object is what is kept of a Secret: nothing of its data. It is not modified.
type object struct {
	key        types.NamespacedName
	uid        types.UID
	version    string // resourceVersion
	created    time.Time
	labels     map[string]string
	owners     []metav1.OwnerReference
	finalizers []string
}

func objectOf(o metav1.Object) *object {
	return &object{
		key:        types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()},
		uid:        o.GetUID(),
		version:    o.GetResourceVersion(),
		created:    o.GetCreationTimestamp().Time,
		labels:     o.GetLabels(),
		owners:     o.GetOwnerReferences(),
		finalizers: o.GetFinalizers(),
	}
}

// release is the namespace and name of the release that the Secret says it belongs to.
func (o *object) release() types.NamespacedName {
	return types.NamespacedName{Namespace: o.key.Namespace, Name: o.labels[labelName]}
}

// newer tells whether resource version a is later than b. Versions that cannot be compared are not.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// Record is what the labels and metadata of a stored revision say.
type Record struct {
	// Key is the Secret's name.
	Key string
	// Name of the release.
	Name string
	// Version is the revision, from 1.
	Version int
	// Status as labeled; it can be any text if somebody else wrote it.
	Status helmrelease.Status
	// Labels of the Secret, all of them; a copy.
	Labels map[string]string
	// UID and ResourceVersion of the Secret.
	UID             types.UID
	ResourceVersion string
	// Created is when the Secret was created, Modified when it was last written
	// as far as the label modifiedAt tells, else Created.
	Created, Modified time.Time
	// OwnerReferences of the Secret; a copy.
	OwnerReferences []metav1.OwnerReference
}

// keyOf is the name of the Secret that holds a revision.
func keyOf(release string, version int) string {
	return storage.HelmStorageType + "." + release + ".v" + strconv.Itoa(version)
}

// splitKey is the reverse of keyOf.
func splitKey(key string) (release string, version int, ok bool) {
	rest, ok := strings.CutPrefix(key, storage.HelmStorageType+".")
	if !ok {
		return "", 0, false
	}
	i := strings.LastIndex(rest, ".v")
	if i < 1 {
		return "", 0, false
	}
	version, ok = positive(rest[i+2:])
	return rest[:i], version, ok
}

// positive parses a revision as Helm writes it: no sign, no leading zero.
func positive(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n > 0 && strconv.Itoa(n) == s
}

// recordOf reads a Secret's labels. The error says which of them is wrong.
func recordOf(o *object) (Record, error) {
	version, ok := positive(o.labels[labelVersion])
	switch {
	case o.labels[labelOwner] != ownerHelm:
		return Record{}, fmt.Errorf("release Secret %s: its label owner is not helm", o.key)
	case !ok:
		return Record{}, fmt.Errorf("release Secret %s: its label version is not a positive integer", o.key)
	case o.key.Name != keyOf(o.labels[labelName], version):
		return Record{}, fmt.Errorf("release Secret %s: its labels name and version do not fit its name", o.key)
	}
	modified := o.created
	if s, err := strconv.ParseInt(o.labels[labelModifiedAt], 10, 64); err == nil && s > 0 && s < maxUnix {
		modified = time.Unix(s, 0)
	}
	return Record{
		Key:             o.key.Name,
		Name:            o.labels[labelName],
		Version:         version,
		Status:          helmrelease.Status(o.labels[labelStatus]),
		Labels:          maps.Clone(o.labels),
		UID:             o.uid,
		ResourceVersion: o.version,
		Created:         o.created,
		Modified:        modified,
		OwnerReferences: slices.Clone(o.owners),
	}, nil
}

// maxUnix is the end of the year 9999: JSON has no later times.
const maxUnix = 253402300800

// recordsOf returns the records of those objects that are stored revisions,
// oldest first. Forged and foreign ones are passed over.
func recordsOf(objects []*object) []Record {
	records := make([]Record, 0, len(objects))
	for _, o := range objects {
		if r, err := recordOf(o); err == nil {
			records = append(records, r)
		}
	}
	slices.SortFunc(records, func(a, b Record) int {
		if a.Name != b.Name {
			return strings.Compare(a.Name, b.Name)
		}
		return a.Version - b.Version
	})
	return records
}

// releaseLabels are those of a Secret's labels that are the release's own, and
// may be written again with it.
func releaseLabels(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	for _, l := range driver.GetSystemLabels() {
		delete(out, l)
	}
	delete(out, LabelParts)
	return out
}
