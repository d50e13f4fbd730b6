// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/status"
	"github.com/chartgate/chartgate/internal/translate"
)

// reportWorkload takes the status of a kind that runs a workload on from
// Deployed to Updating and Running, as its watches tell.
func (r *Reconciler) reportWorkload(req *Request, b *status.Builder, ready dependents.Readiness) {
	seen, known := r.reportReplicas(req, b)
	if !known {
		return
	}
	switch {
	case ready.Ready && seen.Ready >= seen.Desired:
		b.Phase(v1alpha1.PhaseRunning, "All replicas are ready")
	case ready.Failed || seen.Ready >= seen.Desired:
		b.Phase(v1alpha1.PhaseUpdating, ready.Message)
	default:
		message := fmt.Sprintf("%d/%d replicas ready", seen.Ready, seen.Desired)
		b.Phase(v1alpha1.PhaseUpdating, message).Unready(false, message)
	}
}

// reportReplicas sets the fields that are the kind's own, whatever the phase is.
// It reports false for kinds without, and where the watch is about to tell.
func (r *Reconciler) reportReplicas(req *Request, b *status.Builder) (translate.Observation, bool) {
	if r.observer == nil {
		return translate.Observation{}, false
	}
	live, known := r.observed(req)
	if !known {
		return translate.Observation{}, false
	}
	seen := r.observer.Observe(req.Object, live)
	b.Own(seen.Fields)
	return seen, true
}

// observed returns the objects that the status tells of, as the watches have them.
func (r *Reconciler) observed(req *Request) ([]*unstructured.Unstructured, bool) {
	refs, err := req.Session.Objects()
	if err != nil {
		return nil, false
	}
	byName := make(map[translate.Object]dependents.Ref, len(refs))
	for _, ref := range refs {
		if ref.Namespace == req.Change.Namespace {
			byName[translate.Object{GroupKind: ref.Mapping.GroupVersionKind.GroupKind(), Name: ref.Name}] = ref
		}
	}
	names := r.observer.Observed(req.Object)
	live := make([]*unstructured.Unstructured, len(names))
	for i, name := range names {
		ref, released := byName[name]
		if !released {
			continue
		}
		obj, known := r.tracker.Body(req.Identity, ref)
		if !known {
			return nil, false
		}
		live[i] = obj
	}
	return live, true
}
