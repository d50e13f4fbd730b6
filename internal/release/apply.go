// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/chartgate/chartgate/internal/identity"
)

// FieldManager is the name under which released objects are written.
const FieldManager = "chartgate"

// object is one object of a release and where it lives.
type object struct {
	mapping *meta.RESTMapping
	obj     *unstructured.Unstructured
}

func (o object) namespaced() bool { return o.mapping.Scope.Name() == meta.RESTScopeNameNamespace }

// String names the object for people: kind, then name with namespace where it has one.
func (o object) String() string {
	name := o.obj.GetName()
	if o.namespaced() {
		name = o.obj.GetNamespace() + "/" + name
	}
	return o.mapping.GroupVersionKind.Kind + " " + name
}

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

// patchTo changes live to what target says, and takes away what original had
// and target no longer has. It returns the object as the server has it then,
// and whether anything changed.
func (a applier) patchTo(original, target object, live *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	patch, patchType, err := threeWayPatch(original.obj, target.obj, live)
	if err != nil {
		return nil, false, terminal(CauseRender, fmt.Errorf("difference of %s: %w", target, err))
	}
	if patch == nil {
		return live, false, nil
	}
	after, err := a.resource(target).Patch(a.ctx, target.obj.GetName(), patchType, patch, metav1.PatchOptions{
		FieldManager: FieldManager, FieldValidation: a.validation(),
	})
	if err != nil {
		return nil, false, fmt.Errorf("patch %s: %w", target, err)
	}
	return after, after.GetResourceVersion() != live.GetResourceVersion(), nil
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

// restore makes sure the object is as the release has it: created when it is
// gone, patched when it was edited. It returns the live object and what was done.
func (a applier) restore(o object) (live *unstructured.Unstructured, repaired string, err error) {
	for range 2 {
		live, err = a.get(o)
		if err != nil {
			return nil, "", err
		}
		if live == nil {
			live, err = a.create(o)
			if apierrors.IsAlreadyExists(err) {
				continue
			}
			return live, "created", err
		}
		after, changed, err := a.patchTo(o, o, live)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		if changed {
			return after, "changed back", nil
		}
		return after, "", nil
	}
	return nil, "", fmt.Errorf("repair %s: somebody else creates and deletes it at the same time", o)
}
