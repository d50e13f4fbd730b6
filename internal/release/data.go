// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Data says how a release treats what it keeps data in.
//
// The templates of a StatefulSet's volume claims can't be changed. A release
// with Data grows them all the same: the claims that are there are expanded, and
// the StatefulSet is made anew around its pods. They never shrink.
type Data struct {
	// Label and Value mark the volume claims and Secrets that outlive the release, in its namespace.
	Label, Value string
	// Claim and Secret tell by its name whether one that is marked belongs to the release.
	Claim, Secret func(name string) bool
	// Delete says that they are deleted with the release.
	Delete bool
}

var (
	claimResource  = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	secretResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	statefulSet    = schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
)

// claimTemplates is where a StatefulSet has the templates of its claims.
var claimTemplates = []string{"spec", "volumeClaimTemplates"}

// storageRequest is where a claim says how large it is.
var storageRequest = []string{"spec", "resources", "requests", "storage"}

// grows tells whether the claims of the object may grow.
func (s *Session) grows(o object) bool {
	return s.change.Data != nil && o.mapping.GroupVersionKind.GroupKind() == statefulSet
}

// outgrown tells whether a StatefulSet has to be made anew, since the target asks for larger claims.
func (t *transition) outgrown(target object, live *unstructured.Unstructured) bool {
	if !t.session.grows(target) || t.backwards || !ownedBy(live, t.session.change) {
		return false
	}
	have := claimSizes(live)
	for name, size := range claimSizes(target.obj) {
		if now, ok := have[name]; ok && size.Cmp(now) > 0 {
			return true
		}
	}
	return false
}

// regrow expands the claims of a StatefulSet, and makes it anew around its
// pods: they go on running, and the new one takes them over.
func (t *transition) regrow(target object, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if err := t.growClaims(target); err != nil {
		return nil, err
	}
	if err := t.applier.orphan(target, live); err != nil {
		return nil, err
	}
	if err := t.applier.waitGone(target, string(live.GetUID())); err != nil {
		return nil, err
	}
	return t.create(target)
}

// growClaims expands the claims that a StatefulSet will find, so that none is smaller than its template.
func (t *transition) growClaims(target object) error {
	if !t.session.grows(target) || t.backwards {
		return nil
	}
	selector, _, err := unstructured.NestedStringMap(target.obj.Object, "spec", "selector", "matchLabels")
	if err != nil || len(selector) == 0 {
		return err
	}
	claims := t.applier.clients.Dynamic.Resource(claimResource).Namespace(target.obj.GetNamespace())
	list, err := claims.List(t.applier.ctx, metav1.ListOptions{LabelSelector: labels.FormatLabels(selector)})
	if err != nil {
		return fmt.Errorf("claims of %s: %w", target, err)
	}
	for template, size := range claimSizes(target.obj) {
		for i := range list.Items {
			claim := &list.Items[i]
			if !ordinal(claim.GetName(), template+"-"+target.obj.GetName()+"-") {
				continue
			}
			if have, ok := quantityAt(claim, storageRequest...); !ok || have.Cmp(size) >= 0 {
				continue
			}
			if err := t.growClaim(claims, claim, size); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *transition) growClaim(claims dynamic.ResourceInterface, claim *unstructured.Unstructured, size resource.Quantity) error {
	want := map[string]any{}
	if err := unstructured.SetNestedField(want, size.String(), storageRequest...); err != nil {
		return err
	}
	patch, err := json.Marshal(want)
	if err != nil {
		return err
	}
	_, err = claims.Patch(t.applier.ctx, claim.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	phase, _, _ := unstructured.NestedString(claim.Object, "status", "phase")
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsInvalid(err) && phase != "Bound":
		return fmt.Errorf("PersistentVolumeClaim %s/%s is %s and can only grow when it is bound to a volume: %w", claim.GetNamespace(), claim.GetName(), phase, err)
	case apierrors.IsInvalid(err), refusedToResize(err):
		return terminal(CauseObject, fmt.Errorf("PersistentVolumeClaim %s/%s can't grow to %s: its StorageClass has to have allowVolumeExpansion: true; else set the size back: %w",
			claim.GetNamespace(), claim.GetName(), size.String(), err))
	default:
		return fmt.Errorf("grow PersistentVolumeClaim %s/%s: %w", claim.GetNamespace(), claim.GetName(), err)
	}
}

// refusedToResize tells whether admission refuses that a claim grows, which
// looks like a lack of rights: the API server's plugin PersistentVolumeClaimResize does so.
func refusedToResize(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "dynamically provisioned pvc can be resized")
}

// claimSizes are the sizes that a StatefulSet's templates ask for, by their names.
func claimSizes(set *unstructured.Unstructured) map[string]resource.Quantity {
	templates, _, _ := unstructured.NestedSlice(set.Object, claimTemplates...)
	out := make(map[string]resource.Quantity, len(templates))
	for _, item := range templates {
		if fields, ok := item.(map[string]any); ok {
			template := &unstructured.Unstructured{Object: fields}
			if size, ok := quantityAt(template, storageRequest...); ok {
				out[template.GetName()] = size
			}
		}
	}
	return out
}

func quantityAt(obj *unstructured.Unstructured, path ...string) (resource.Quantity, bool) {
	value, ok, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
	if err != nil || !ok {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(fmt.Sprint(value))
	return q, err == nil
}

// ordinal tells whether a name is the prefix and a pod's number.
func ordinal(name, prefix string) bool {
	number, ok := strings.CutPrefix(name, prefix)
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// deleteData deletes what outlives the release, where that is to go with it. A
// claim is gone as soon as no pod uses it any more.
func (s *Session) deleteData(a applier) error {
	if s.change.Data == nil || !s.change.Data.Delete {
		return nil
	}
	var errs []error
	for _, kind := range []struct {
		gvr schema.GroupVersionResource
		is  func(string) bool
	}{{claimResource, s.change.Data.Claim}, {secretResource, s.change.Data.Secret}} {
		client := s.clients.Dynamic.Resource(kind.gvr).Namespace(s.change.Namespace)
		list, err := client.List(a.ctx, metav1.ListOptions{LabelSelector: labels.FormatLabels(map[string]string{s.change.Data.Label: s.change.Data.Value})})
		if err != nil {
			errs = append(errs, fmt.Errorf("%s with label %s=%s: %w", kind.gvr.Resource, s.change.Data.Label, s.change.Data.Value, err))
			continue
		}
		for i := range list.Items {
			obj := &list.Items[i]
			if !kind.is(obj.GetName()) || obj.GetDeletionTimestamp() != nil {
				continue
			}
			uid := obj.GetUID()
			err := client.Delete(a.ctx, obj.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				errs = append(errs, fmt.Errorf("delete %s %s/%s: %w", kind.gvr.Resource, obj.GetNamespace(), obj.GetName(), err))
			}
		}
	}
	return errors.Join(errs...)
}

// isStatefulSet tells whether the content is a StatefulSet's.
func isStatefulSet(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind().GroupKind() == statefulSet
}

// withoutClaims takes the templates of claims off contents of a StatefulSet:
// they can't be changed, so there is nothing to put back.
func withoutClaims(contents ...*unstructured.Unstructured) {
	for _, c := range contents {
		unstructured.RemoveNestedField(c.Object, claimTemplates...)
	}
}
