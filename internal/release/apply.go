// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/chartgate/chartgate/internal/identity"
)

// FieldManager is the name under which released objects are written.
const FieldManager = "chartgate"

// gonePoll is how often an object that is being deleted is looked for.
const gonePoll = 200 * time.Millisecond

// applier writes objects as one identity, within one context.
type applier struct {
	ctx     context.Context
	clients *identity.Clients
	// strict makes the API server refuse unknown and duplicate fields, as helm does by its own validation.
	strict bool
}

func (a applier) resource(o object) dynamic.ResourceInterface {
	r := a.clients.Dynamic.Resource(o.mapping.Resource)
	if o.namespaced() {
		return r.Namespace(o.obj.GetNamespace())
	}
	return r
}

func (a applier) validation() string {
	if a.strict {
		return metav1.FieldValidationStrict
	}
	return metav1.FieldValidationIgnore
}

// create makes the object and returns it as the server has it.
func (a applier) create(o object) (*unstructured.Unstructured, error) {
	live, err := a.resource(o).Create(a.ctx, o.obj, metav1.CreateOptions{
		FieldManager: FieldManager, FieldValidation: a.validation(),
	})
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", o, err)
	}
	return live, nil
}

// get reads the object as the server has it; nil where it does not exist.
func (a applier) get(o object) (*unstructured.Unstructured, error) {
	live, err := a.resource(o).Get(a.ctx, o.obj.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", o, err)
	}
	return live, nil
}

// patchTo sends the patch that takes base to target and takes away what
// original had and target has not. It returns the object as the server has it
// then, or live where there is nothing to patch.
func (a applier) patchTo(o object, original, target, base, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	patch, patchType, err := threeWayPatch(original, target, base)
	if err != nil {
		return nil, terminal(CauseRender, fmt.Errorf("difference of %s: %w", o, err))
	}
	if patch == nil {
		return live, nil
	}
	return a.patch(o, patchType, patch)
}

// patchLive sends the patch that takes live to target, as patchTo does, and only
// to this version of the object: a conflict tells that somebody else wrote to it
// since it was read. It also returns whether anything changed.
func (a applier) patchLive(o object, original, target, live *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	patch, patchType, err := threeWayPatch(original, target, live)
	if err == nil && patch != nil {
		patch, err = toVersion(patch, live)
	}
	if err != nil {
		return nil, false, terminal(CauseRender, fmt.Errorf("difference of %s: %w", o, err))
	}
	if patch == nil {
		return live, false, nil
	}
	after, err := a.patch(o, patchType, patch)
	if err != nil {
		return nil, false, err
	}
	return after, after.GetResourceVersion() != live.GetResourceVersion(), nil
}

// patch sends a patch and returns the object as the server has it then.
func (a applier) patch(o object, patchType types.PatchType, patch []byte) (*unstructured.Unstructured, error) {
	after, err := a.resource(o).Patch(a.ctx, o.obj.GetName(), patchType, patch, metav1.PatchOptions{
		FieldManager: FieldManager, FieldValidation: a.validation(),
	})
	if err != nil {
		return nil, fmt.Errorf("patch %s: %w", o, err)
	}
	return after, nil
}

// replace puts target in the place of live, as helm upgrade --force does.
func (a applier) replace(target object, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	obj := target.obj.DeepCopy()
	obj.SetResourceVersion(live.GetResourceVersion())
	after, err := a.resource(target).Update(a.ctx, obj, metav1.UpdateOptions{
		FieldManager: FieldManager, FieldValidation: a.validation(),
	})
	if err != nil {
		return nil, fmt.Errorf("replace %s: %w", target, err)
	}
	return after, nil
}

// remove deletes exactly the live object in the background. One that is gone is no error.
func (a applier) remove(o object, live metav1.Object) error {
	return a.delete(o, live, metav1.DeletePropagationBackground)
}

// orphan deletes exactly the live object, and leaves what it owns.
func (a applier) orphan(o object, live metav1.Object) error {
	return a.delete(o, live, metav1.DeletePropagationOrphan)
}

func (a applier) delete(o object, live metav1.Object, propagation metav1.DeletionPropagation) error {
	uid := live.GetUID()
	err := a.resource(o).Delete(a.ctx, o.obj.GetName(), metav1.DeleteOptions{
		PropagationPolicy: &propagation, Preconditions: &metav1.Preconditions{UID: &uid},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s: %w", o, err)
	}
	return nil
}

// waitGone waits until no object of that name, or another one, is there.
func (a applier) waitGone(o object, uid string) error {
	err := wait.PollUntilContextCancel(a.ctx, gonePoll, true, func(context.Context) (bool, error) {
		live, err := a.get(o)
		if err != nil {
			return false, err
		}
		return live == nil || string(live.GetUID()) != uid, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the former %s to be gone: %w", o, err)
	}
	return nil
}
