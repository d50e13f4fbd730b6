// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// KindGates returns the gates that watches.yaml gives a kind, and whether the
// kind is one of this operator's. It is safe for concurrent use.
type KindGates func(schema.GroupKind) ([]v1alpha1.Gate, bool)

// dependencyReady passes when an object is ready at its current generation.
// The object is of the resource's own kind and namespace unless the gate's ref
// says otherwise.
type dependencyReady struct{ kindGates KindGates }

func (e dependencyReady) ref(change Change, g v1alpha1.Gate) (Ref, error) {
	return dependencyOf(g, Ref{GroupVersionKind: change.kind(), Namespace: change.Namespace})
}

// dependencyOf is what a gate of the resource waits for.
func dependencyOf(g v1alpha1.Gate, of Ref) (Ref, error) {
	ref, err := refOf(g, of.GroupVersionKind, of.Namespace)
	if err != nil {
		return ref, err
	}
	return ref, secretless(g, ref)
}

func (e dependencyReady) Evaluate(ctx context.Context, change Change, g v1alpha1.Gate) (Decision, error) {
	ref, err := e.ref(change, g)
	if err != nil {
		return Decision{}, err
	}
	if d, err := located(ctx, change, &ref); d != nil || err != nil {
		return orZero(d), err
	}
	obj, err := change.reader().Object(ctx, ref)
	if errors.Is(err, ErrNotFound) {
		return Decision{Verdict: Hold, Reason: ReasonDependencyMissing, Message: fmt.Sprintf("%s does not exist; create it, or correct the gate's ref", ref)}, nil
	}
	if err != nil {
		return Decision{}, readError(ref, err)
	}
	ready, why := objectReady(obj, e.ours(change, ref.GroupVersionKind.GroupKind()))
	if ready {
		return Decision{Verdict: Allow, Reason: ReasonDependencyReady, Message: ref.String() + " is ready"}, nil
	}
	if mandatory(g) {
		if circle := e.circle(ctx, change, ref); circle != "" {
			return Decision{Verdict: Hold, Reason: ReasonDependencyCycle, Message: "the resources wait for each other: " + circle + "; remove the gate of one of them, or set its mandatory to false"}, nil
		}
	}
	return Decision{
		Verdict: Hold, Reason: ReasonDependencyNotReady,
		Message: fmt.Sprintf("%s is not ready: %s; see: kubectl describe %s", ref, clip(why), kubectlName(ref)),
	}, nil
}

func (e dependencyReady) References(change Change, g v1alpha1.Gate) []Ref {
	ref, err := e.ref(change, g)
	return watchable(change, ref, err)
}

func (e dependencyReady) Check(g v1alpha1.Gate) error {
	_, err := e.ref(Change{Namespace: anyNamespace, GroupVersionKind: v1alpha1.GroupVersion.WithKind("Any")}, g)
	return err
}

// ours tells whether resources of the kind have Chartgate's gates and conditions.
func (e dependencyReady) ours(change Change, gk schema.GroupKind) bool {
	if gk == change.kind().GroupKind() {
		return true
	}
	if e.kindGates == nil {
		return false
	}
	_, ok := e.kindGates(gk)
	return ok
}

func orZero(d *Decision) Decision {
	if d == nil {
		return Decision{}
	}
	return *d
}
