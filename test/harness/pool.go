// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pool holds the CRDs of tests that ended, by what they serve. A CRD is dear: the API server
// publishes all schemas anew, and each controller watches one kind more for the rest of the run. So
// the next test that needs a kind like it takes it over. No two tests have a kind at the same time.
var pool struct {
	sync.Mutex
	free map[string][]*apiextensionsv1.CustomResourceDefinition
}

// lend returns a CRD for this test alone: one that another test is done with, or a new one, of a name
// that nobody has. At the end of the test nothing is left of the kind's resources, and another test
// may have it.
func (e *Env) lend(crdNamed func(kind string) *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	e.Helper()
	content, err := json.Marshal(crdNamed("App"))
	if err != nil {
		e.Fatal(err)
	}
	key := string(content) // CRDs of one key are the same but for their names
	pool.Lock()
	var crd *apiextensionsv1.CustomResourceDefinition
	if free := pool.free[key]; len(free) > 0 {
		crd, pool.free[key] = free[len(free)-1], free[:len(free)-1]
	}
	pool.Unlock()
	if crd == nil {
		crd = crdNamed(title(Name("app")))
		e.InstallCRD(crd)
	}
	e.Cleanup(func() {
		if e.Failed() || !e.emptied(crd) {
			return // the CRD stays as the test left it
		}
		pool.Lock()
		defer pool.Unlock()
		if pool.free == nil {
			pool.free = map[string][]*apiextensionsv1.CustomResourceDefinition{}
		}
		pool.free[key] = append(pool.free[key], crd)
	})
	return crd
}

// emptied removes the kind's resources, whose operator has stopped, and tells whether the CRD still is
// what was installed.
func (e *Env) emptied(crd *apiextensionsv1.CustomResourceDefinition) bool {
	ctx, cancel := context.WithTimeout(context.Background(), Wait)
	defer cancel()
	live := &apiextensionsv1.CustomResourceDefinition{}
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(crd), live); err != nil || live.Generation != 1 || live.DeletionTimestamp != nil {
		return false
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(crd.Spec.Group + "/" + crd.Spec.Versions[0].Name)
	list.SetKind(crd.Spec.Names.ListKind)
	if err := e.Client.List(ctx, list); err != nil {
		e.Logf("list what the test left of %s: %v", crd.Name, err)
		return false
	}
	for i := range list.Items {
		obj := &list.Items[i]
		err := e.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		if err == nil {
			err = e.Client.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground))
		}
		if client.IgnoreNotFound(err) != nil {
			e.Logf("remove what the test left: %s %s/%s: %v", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
			return false
		}
	}
	return true
}
