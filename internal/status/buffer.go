// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// conflictRetries bounds how often finalizers are worked out again when
// somebody else writes the resource at the same time.
const conflictRetries = 5

var errUnsupported = errors.New("the buffering client has no such method: the plugin is not known to call it")

// Buffer is what one reconcile lets the plugin see and do: it reads the
// snapshot that was gated and nothing newer, its status is recorded and not
// sent, and of its updates only the finalizers are.
type Buffer struct {
	snapshot   *unstructured.Unstructured
	finalizers []string
	version    string
	conditions []metav1.Condition
	gone       bool
}

// NewBuffer returns a buffer for the snapshot, which is not modified.
func NewBuffer(snapshot *unstructured.Unstructured) *Buffer {
	return &Buffer{
		snapshot:   snapshot,
		finalizers: snapshot.GetFinalizers(),
		version:    snapshot.GetResourceVersion(),
	}
}

// Conditions returns what the plugin recorded, in its own words. A nil buffer recorded nothing.
func (b *Buffer) Conditions() []metav1.Condition {
	if b == nil {
		return nil
	}
	return b.conditions
}

// Gone tells whether the plugin is through with a resource that is being
// deleted: its finalizer is off.
func (b *Buffer) Gone() bool { return b.gone }

type bufferKey struct{}

// WithBuffer returns a context in which BufferClient works on the buffer.
func WithBuffer(ctx context.Context, b *Buffer) context.Context {
	return context.WithValue(ctx, bufferKey{}, b)
}

// BufferClient is the client that helm-operator-plugins is given. It serves
// the buffer of the call's context. Methods the plugin does not use fail.
type BufferClient struct {
	client.Client
}

var _ client.Client = BufferClient{}

func bufferOf(ctx context.Context) (*Buffer, error) {
	b, ok := ctx.Value(bufferKey{}).(*Buffer)
	if !ok {
		return nil, errors.New("no status buffer in the context")
	}
	return b, nil
}

// Get returns the snapshot.
func (c BufferClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	b, err := bufferOf(ctx)
	if err != nil {
		return err
	}
	out, ok := obj.(*unstructured.Unstructured)
	if !ok || key != client.ObjectKeyFromObject(b.snapshot) {
		return fmt.Errorf("get %s: %w", key, errUnsupported)
	}
	if b.gone {
		gk := b.snapshot.GroupVersionKind().GroupKind()
		return apierrors.NewNotFound(schema.GroupResource{Group: gk.Group, Resource: gk.Kind}, key.Name)
	}
	b.snapshot.DeepCopyInto(out)
	if _, ok := out.Object["spec"].(map[string]any); !ok {
		out.Object["spec"] = map[string]any{} // the plugin refuses a resource without one
	}
	out.SetFinalizers(b.finalizers)
	out.SetResourceVersion(b.version)
	return nil
}

// Update sends the difference of the finalizers, and nothing else.
func (c BufferClient) Update(ctx context.Context, obj client.Object, _ ...client.UpdateOption) error {
	b, err := bufferOf(ctx)
	if err != nil {
		return err
	}
	want := obj.GetFinalizers()
	add := missing(want, b.finalizers)
	remove := missing(b.finalizers, want)
	live, err := PatchFinalizers(ctx, c.Client, b.snapshot, b.finalizers, b.version, add, remove)
	if err != nil {
		return err
	}
	if live == nil || (live.GetDeletionTimestamp() != nil && len(remove) > 0) {
		b.gone = true
		return nil
	}
	b.finalizers, b.version = live.GetFinalizers(), live.GetResourceVersion()
	obj.SetFinalizers(b.finalizers)
	obj.SetResourceVersion(b.version)
	return nil
}

// PatchFinalizers adds and removes finalizers of the object, whatever else
// happens to it meanwhile. It returns the object as it is then; nil when it is gone.
func PatchFinalizers(ctx context.Context, c client.Client, obj *unstructured.Unstructured, have []string, version string, add, remove []string) (*unstructured.Unstructured, error) {
	for range conflictRetries {
		want := slices.DeleteFunc(slices.Clone(have), func(f string) bool { return slices.Contains(remove, f) })
		want = append(want, missing(add, want)...)
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"finalizers": want, "resourceVersion": version, "uid": obj.GetUID(),
		}})
		if err != nil {
			return nil, err
		}
		live := named(obj)
		err = c.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch))
		switch {
		case err == nil:
			return live, nil
		case apierrors.IsNotFound(err):
			return nil, nil
		case !apierrors.IsConflict(err):
			return nil, fmt.Errorf("finalizers of %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
		}
		live = named(obj)
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), live); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		if live.GetUID() != obj.GetUID() {
			return nil, nil // another object of the same name
		}
		have, version = live.GetFinalizers(), live.GetResourceVersion()
	}
	return nil, fmt.Errorf("finalizers of %s/%s: the object changes all the time", obj.GetNamespace(), obj.GetName())
}

func named(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(obj.GroupVersionKind())
	out.SetNamespace(obj.GetNamespace())
	out.SetName(obj.GetName())
	return out
}

func missing(of, in []string) []string {
	var out []string
	for _, f := range of {
		if !slices.Contains(in, f) {
			out = append(out, f)
		}
	}
	return out
}

// Status returns a writer that records.
func (c BufferClient) Status() client.SubResourceWriter { return bufferWriter{} }

type bufferWriter struct{ client.SubResourceWriter }

// Update records the conditions the plugin would have written.
func (bufferWriter) Update(ctx context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	b, err := bufferOf(ctx)
	if err != nil {
		return err
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return errUnsupported
	}
	status, _ := u.Object["status"].(map[string]any)
	var recorded struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &recorded); err != nil {
		return fmt.Errorf("status recorded by the plugin: %w", err)
	}
	b.conditions = recorded.Conditions
	return nil
}

// List is not served: the plugin reads single objects.
func (BufferClient) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errUnsupported
}

// Create is not served: the plugin makes no objects by this client.
func (BufferClient) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errUnsupported
}

// Delete is not served: the plugin deletes no objects by this client.
func (BufferClient) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errUnsupported
}

// DeleteAllOf is not served: the plugin deletes no objects by this client.
func (BufferClient) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errUnsupported
}

// Patch is not served: the plugin patches no objects by this client.
func (BufferClient) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errUnsupported
}
