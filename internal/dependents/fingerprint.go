// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package dependents

import (
	"hash/fnv"
	"sort"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// fingerprint tells states of an object apart as far as a release can care.
// The generation moves with the spec and not with the status; kinds that have
// none (ConfigMap, Service, Role) are told apart by their resource version.
type fingerprint struct {
	uid        types.UID
	generation int64
	version    string
	metadata   uint64
}

// volatileAnnotations are written by controllers as they work, and no part of any release.
var volatileAnnotations = map[string]bool{
	"deployment.kubernetes.io/revision":         true,
	"control-plane.alpha.kubernetes.io/leader":  true,
	"endpoints.kubernetes.io/last-change-time":  true,
	"pv.kubernetes.io/bind-completed":           true,
	"pv.kubernetes.io/bound-by-controller":      true,
	"kubectl.kubernetes.io/last-applied-config": true,
}

func fingerprintOf(obj metav1.Object) fingerprint {
	f := fingerprint{uid: obj.GetUID(), generation: obj.GetGeneration()}
	if f.generation == 0 {
		f.version = obj.GetResourceVersion()
	}
	h := fnv.New64a()
	write := func(s string) {
		_, _ = h.Write([]byte(s))
		_, _ = h.Write([]byte{0})
	}
	writeMap := func(m map[string]string, skip map[string]bool) {
		keys := make([]string, 0, len(m))
		for k := range m {
			if !skip[k] {
				keys = append(keys, k)
			}
		}
		sort.Strings(keys)
		for _, k := range keys {
			write(k)
			write(m[k])
		}
		write("")
	}
	writeMap(obj.GetLabels(), nil)
	writeMap(obj.GetAnnotations(), volatileAnnotations)
	for _, ref := range obj.GetOwnerReferences() {
		write(string(ref.UID))
	}
	f.metadata = h.Sum64()
	return f
}

// older tells whether version a of a kind's objects came before b. Versions
// that cannot be compared count as not older, so what they stand for is looked at.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
