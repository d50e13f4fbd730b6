// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"
	helmkube "helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
)

// writeConcurrency bounds how many objects of one kind are written at a time.
const writeConcurrency = 8

// kubeClient is the client that Helm's actions use in a session. It makes
// requests with the session's context and identity, with cached discovery and
// strict validation by the API server, and marks what it applies.
type kubeClient struct {
	*helmkube.Client
	session *Session
}

var (
	_ helmkube.Interface                    = (*kubeClient)(nil)
	_ helmkube.InterfaceThreeWayMerge       = (*kubeClient)(nil)
	_ helmkube.InterfaceExt                 = (*kubeClient)(nil)
	_ helmkube.InterfaceDeletionPropagation = (*kubeClient)(nil)
)

// IsReachable asks nothing: the first request that matters tells.
func (k *kubeClient) IsReachable() error { return nil }

// Build reads objects from YAML. Validation is left to the API server.
func (k *kubeClient) Build(reader io.Reader, _ bool) (helmkube.ResourceList, error) {
	objects, err := parseManifest(reader)
	if err != nil {
		return nil, terminal(CauseRender, err)
	}
	list := make(helmkube.ResourceList, 0, len(objects))
	for _, obj := range objects {
		o, err := k.session.locate(obj)
		if err != nil {
			return nil, err
		}
		client, err := k.session.clients.RESTClient(o.mapping.GroupVersionKind.GroupVersion())
		if err != nil {
			return nil, err
		}
		list = append(list, &resource.Info{
			Client: client, Mapping: o.mapping,
			Namespace: obj.GetNamespace(), Name: obj.GetName(), Object: obj,
		})
	}
	return list, nil
}

// Create makes the objects, in order of kinds, those of one kind side by side.
func (k *kubeClient) Create(list helmkube.ResourceList) (*helmkube.Result, error) {
	objects, err := k.prepare(list)
	if err != nil {
		return nil, err
	}
	a := k.session.applier(true)
	err = eachKind(list, func(i int) error {
		live, err := a.create(objects[i])
		if err != nil {
			return err
		}
		k.session.applied(objects[i], live)
		return list[i].Refresh(live, true)
	})
	if err != nil {
		return nil, err
	}
	return &helmkube.Result{Created: list}, nil
}

// Update takes the cluster from the original objects to the target ones.
func (k *kubeClient) Update(original, target helmkube.ResourceList, force bool) (*helmkube.Result, error) {
	result := &helmkube.Result{}
	objects, err := k.prepare(target)
	if err != nil {
		return result, err
	}
	var mu sync.Mutex
	a := k.session.applier(true)
	err = eachKind(target, func(i int) error {
		live, created, err := k.updateOne(a, original.Get(target[i]), objects[i], force)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if created {
			result.Created = append(result.Created, target[i])
		} else {
			result.Updated = append(result.Updated, target[i])
		}
		k.session.applied(objects[i], live)
		return target[i].Refresh(live, true)
	})
	if err != nil {
		return result, err
	}
	removed, err := k.remove(original.Difference(target))
	result.Deleted = removed
	return result, err
}

// UpdateThreeWayMerge is Update: all patches are three-way.
func (k *kubeClient) UpdateThreeWayMerge(original, target helmkube.ResourceList, force bool) (*helmkube.Result, error) {
	return k.Update(original, target, force)
}

func (k *kubeClient) updateOne(a applier, original *resource.Info, target object, force bool) (*unstructured.Unstructured, bool, error) {
	live, err := a.get(target)
	if err != nil {
		return nil, false, err
	}
	if live == nil {
		live, err = a.create(target)
		return live, true, err
	}
	if force {
		live, err = a.replace(target, live)
		return live, false, err
	}
	before := target
	if original != nil {
		if obj, ok := original.Object.(*unstructured.Unstructured); ok {
			before = object{mapping: target.mapping, obj: obj}
		}
	}
	live, _, err = a.patchTo(before, target, live)
	return live, false, err
}

// remove deletes objects that the release no longer has, unless they are to be kept.
func (k *kubeClient) remove(list helmkube.ResourceList) (helmkube.ResourceList, error) {
	var (
		deleted helmkube.ResourceList
		errs    []error
	)
	a := k.session.applier(false)
	for _, info := range list {
		o := infoObject(info)
		live, err := a.get(o)
		switch {
		case err != nil:
			errs = append(errs, err)
			continue
		case live == nil, kept(live), kept(o.obj), !ownedBy(live, k.session.change.Name, k.session.change.Namespace):
			continue
		}
		background := metav1.DeletePropagationBackground
		err = a.resource(o).Delete(a.ctx, o.obj.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete %s: %w", o, err))
			continue
		}
		deleted = append(deleted, info)
	}
	return deleted, errors.Join(errs...)
}

// prepare marks the release's own objects (hooks are told apart by lacking
// Helm's mark), and has their kinds watched before they are written.
func (k *kubeClient) prepare(list helmkube.ResourceList) ([]object, error) {
	objects := make([]object, len(list))
	released := make([]object, 0, len(list))
	for i, info := range list {
		objects[i] = infoObject(info)
		if objects[i].obj.GetAnnotations()[helmNameAnnotation] == "" {
			continue
		}
		if err := stamp(objects[i], k.session.change); err != nil {
			return nil, err
		}
		released = append(released, objects[i])
	}
	return objects, k.session.watch(released)
}

func infoObject(info *resource.Info) object {
	obj, _ := info.Object.(*unstructured.Unstructured)
	return object{mapping: info.Mapping, obj: obj}
}

// eachKind calls f for every index of the list: one kind after the other, as
// Helm orders them, the objects of one kind side by side. All of a kind are
// tried; the errors are joined.
func eachKind(list helmkube.ResourceList, f func(i int) error) error {
	for start := 0; start < len(list); {
		end := start + 1
		for end < len(list) && list[end].Mapping.GroupVersionKind == list[start].Mapping.GroupVersionKind {
			end++
		}
		errs := make([]error, end-start)
		var g errgroup.Group
		g.SetLimit(writeConcurrency)
		for i := start; i < end; i++ {
			g.Go(func() error {
				errs[i-start] = f(i)
				return nil
			})
		}
		_ = g.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		start = end
	}
	return nil
}
