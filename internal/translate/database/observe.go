// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/internal/translate"
)

// What the chart's objects are named, after the Database's name.
const (
	standbySuffix = "-standby"
	backupSuffix  = "-backup"
)

// versionLabel of a StatefulSet is the version of PostgreSQL that its servers run.
const versionLabel = "app.kubernetes.io/version"

var _ translate.Observer = Translator{}

// Observed implements [translate.Observer]: the primary's StatefulSet, the
// standbys', and the CronJob of the backups.
func (Translator) Observed(obj *unstructured.Unstructured) []translate.Object {
	sets, jobs := schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, schema.GroupKind{Group: "batch", Kind: "CronJob"}
	return []translate.Object{
		{GroupKind: sets, Name: obj.GetName()},
		{GroupKind: sets, Name: obj.GetName() + standbySuffix},
		{GroupKind: jobs, Name: obj.GetName() + backupSuffix},
	}
}

// Observe implements [translate.Observer]: currentReplicas and readyReplicas of
// all servers, the currentVersion once all of them run it, and the lastBackup,
// which stays known when backups are turned off.
func (Translator) Observe(obj *unstructured.Unstructured, live []*unstructured.Unstructured) translate.Observation {
	primary, standbys, backup := live[0], live[1], live[2]
	var out translate.Observation
	var replicas, ready int64
	for _, set := range []*unstructured.Unstructured{primary, standbys} {
		replicas += translate.Number(set, "status", "replicas")
		ready += translate.Number(set, "status", "readyReplicas")
		out.Ready += min(translate.Number(set, "status", "readyReplicas"), translate.Number(set, "status", "updatedReplicas"))
		out.Desired += translate.Number(set, "spec", "replicas")
	}
	if primary == nil {
		out.Desired++ // there is no database without one
	}
	out.Fields = map[string]any{
		"currentReplicas": replicas, "readyReplicas": ready,
		"currentVersion": kept(obj, "currentVersion"), "lastBackup": kept(obj, "lastBackup"),
	}
	if primary != nil && out.Ready >= out.Desired && settled(primary) && (standbys == nil || settled(standbys)) {
		out.Fields["currentVersion"] = primary.GetLabels()[versionLabel]
	}
	if backup != nil {
		if at, ok, _ := unstructured.NestedString(backup.Object, "status", "lastSuccessfulTime"); ok {
			out.Fields["lastBackup"] = at
		}
	}
	return out
}

// kept returns a text of the status as it was; nil where there is none.
func kept(obj *unstructured.Unstructured, field string) any {
	if text, _, _ := unstructured.NestedString(obj.Object, "status", field); text != "" {
		return text
	}
	return nil
}

// settled tells whether the controller has seen the StatefulSet as it is, so that its status tells of it.
func settled(set *unstructured.Unstructured) bool {
	return translate.Number(set, "status", "observedGeneration") >= set.GetGeneration()
}
