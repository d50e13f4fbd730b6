// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// Read returns the shared part of a resource's status. A status that does not
// parse, such as one written by another operator, counts as empty where it does not.
func Read(obj *unstructured.Unstructured) v1alpha1.CommonStatus {
	var out v1alpha1.CommonStatus
	raw, _ := obj.Object["status"].(map[string]any)
	for key, value := range raw {
		var part v1alpha1.CommonStatus
		if runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{key: value}, &part) == nil {
			data, err := json.Marshal(map[string]any{key: value})
			if err == nil {
				_ = json.Unmarshal(data, &out) // it parsed by itself just now
			}
		}
	}
	return out
}

// Writer sends status changes. It remembers what it sent last for each
// resource, so that fields which an older CRD prunes are not sent for ever.
type Writer struct {
	client client.Client

	mu   sync.Mutex
	sent map[types.UID]sent
}

type sent struct {
	status  map[string]any // as it was sent
	stored  map[string]any // as the server has it then
	version string
}

// NewWriter returns a writer that uses the client.
func NewWriter(c client.Client) *Writer {
	return &Writer{client: c, sent: map[types.UID]sent{}}
}

// obsolete are fields that older operators wrote and that are taken away: a
// manifest in the status shows Secrets to everyone who may read it.
var obsolete = []string{"deployedRelease"}

// Write makes the status of the resource the given one, with these fields of its
// kind's own, by one patch of what differs, and none where nothing does. The resource being gone is no error.
// On success obj holds the new status, with the resource version and finalizers
// that the server has then; its spec stays the one that was read.
func (w *Writer) Write(ctx context.Context, obj *unstructured.Unstructured, next v1alpha1.CommonStatus, own map[string]any) (changed bool, err error) {
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next)
	if err != nil {
		return false, fmt.Errorf("status of %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
	}
	maps.Copy(want, own)
	have, _ := obj.Object["status"].(map[string]any)
	patch := difference(have, want)
	if len(patch) == 0 || w.wasSent(obj, want) {
		return false, nil
	}
	data, err := json.Marshal(map[string]any{"status": patch})
	if err != nil {
		return false, fmt.Errorf("status of %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
	}
	live := named(obj)
	err = w.client.Status().Patch(ctx, live, client.RawPatch(types.MergePatchType, data))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("status of %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
	}
	stored, _ := live.Object["status"].(map[string]any)
	obj.Object["status"] = stored
	obj.SetFinalizers(live.GetFinalizers())
	obj.SetResourceVersion(live.GetResourceVersion())
	w.mu.Lock()
	w.sent[obj.GetUID()] = sent{status: want, stored: runtime.DeepCopyJSON(stored), version: live.GetResourceVersion()}
	w.mu.Unlock()
	return true, nil
}

// Freshen gives obj the status that was written last, where obj was read from a
// cache that has not seen that write yet. Without it, an event that comes right
// after a write is handled with the state before it: a failed change would be
// tried once more.
func (w *Writer) Freshen(obj *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.sent[obj.GetUID()]
	if !ok {
		return
	}
	if order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), last.version); err != nil || order >= 0 {
		return
	}
	obj.Object["status"] = runtime.DeepCopyJSON(last.stored)
	obj.SetResourceVersion(last.version)
}

// Forget drops what is remembered of a resource.
func (w *Writer) Forget(uid types.UID) {
	w.mu.Lock()
	delete(w.sent, uid)
	w.mu.Unlock()
}

// wasSent tells whether exactly this was sent for the state that obj is in.
func (w *Writer) wasSent(obj *unstructured.Unstructured, want map[string]any) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.sent[obj.GetUID()]
	return ok && last.version == obj.GetResourceVersion() && reflect.DeepEqual(last.status, want)
}

// difference returns the merge patch that takes have to want, as far as the
// shared fields go: fields of a kind's own are left alone.
func difference(have, want map[string]any) map[string]any {
	patch := map[string]any{}
	for key, value := range want {
		if _, is := have[key]; value == nil && !is {
			continue
		}
		if !reflect.DeepEqual(have[key], value) {
			patch[key] = replacement(have[key], value)
		}
	}
	for _, key := range slices.Concat(slices.Collect(maps.Keys(sharedFields)), obsolete) {
		if _, is := have[key]; is {
			if _, stays := want[key]; !stays {
				patch[key] = nil
			}
		}
	}
	return patch
}

// replacement returns the merge patch that puts value in the place of have:
// fields of a map that are gone have to be named.
func replacement(have, value any) any {
	before, wasMap := have.(map[string]any)
	after, isMap := value.(map[string]any)
	if !wasMap || !isMap {
		return value
	}
	out := maps.Clone(after)
	for key := range before {
		if _, stays := after[key]; !stays {
			out[key] = nil
		}
	}
	return out
}

// sharedFields are the JSON names of the shared status.
var sharedFields = func() map[string]bool {
	fields := map[string]bool{}
	t := reflect.TypeFor[v1alpha1.CommonStatus]()
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields[name] = true
	}
	return fields
}()
