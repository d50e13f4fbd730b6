// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/chartgen"
	"github.com/chartgate/chartgate/internal/status"
)

// Kind is a custom resource made for one test, and its chart.
type Kind struct {
	schema.GroupVersionKind
	// Chart is the chart's folder.
	Chart string
	// Extra lines of the watch, indented by two.
	Extra string
	env   *Env
}

// Resource is the kind's resource, the regular plural of its name: "appxyzs", and "appxyses" of one
// that happens to end with an s.
func (k *Kind) Resource() string {
	plural, _ := meta.UnsafeGuessKindToResource(k.GroupVersionKind)
	return plural.Resource
}

// OpenKind lends a kind whose CRD has no schema, as operator-sdk projects write it.
func (e *Env) OpenKind(chart string) *Kind {
	e.Helper()
	return e.kind(chart, func(kind string) *apiextensionsv1.CustomResourceDefinition {
		keep := true
		open := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}
		gvk := schema.GroupVersionKind{Group: "open.test.dev", Version: "v1", Kind: kind}
		plural, singular := meta.UnsafeGuessKindToResource(gvk)
		return &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: plural.GroupResource().String()},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: gvk.Group, Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{
					Kind: gvk.Kind, ListKind: gvk.Kind + "List", Plural: plural.Resource, Singular: singular.Resource,
				},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: gvk.Version, Served: true, Storage: true,
					Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: &keep,
						Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": open, "status": open},
					}},
				}},
			},
		}
	})
}

// GatedKind lends a kind as chartgen makes it: Chartgate's own fields, and what
// the chart's schema says; all else of the spec is open where it has none.
func (e *Env) GatedKind(chartPath string) *Kind {
	e.Helper()
	chrt, err := loader.Load(chartPath)
	if err != nil {
		e.Fatal(err)
	}
	return e.kind(chartPath, func(kind string) *apiextensionsv1.CustomResourceDefinition {
		crd, _, err := chartgen.CRD(chrt, chartgen.Options{Kind: kind, Group: "gated.test.dev", Version: "v1"})
		if err != nil {
			e.Fatal(err)
		}
		return crd
	})
}

// kind lends a kind of the CRD that is made for a name.
func (e *Env) kind(chart string, crdNamed func(kind string) *apiextensionsv1.CustomResourceDefinition) *Kind {
	e.Helper()
	crd := e.lend(crdNamed)
	return &Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.Kind},
		Chart:            chart, env: e,
	}
}

// InstallCRD makes the CRD and waits until it is served.
func (e *Env) InstallCRD(crd *apiextensionsv1.CustomResourceDefinition) {
	e.Helper()
	if err := e.Client.Create(e.Ctx, crd); err != nil && !apierrors.IsAlreadyExists(err) {
		e.Fatal(err)
	}
	e.Eventually("CRD "+crd.Name, func() error {
		live := &apiextensionsv1.CustomResourceDefinition{}
		if err := e.Client.Get(e.Ctx, client.ObjectKeyFromObject(crd), live); err != nil {
			return err
		}
		for _, c := range live.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				// The API server tells a moment later that it serves the kind.
				_, err := e.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind})
				return err
			}
		}
		return errors.New("not established")
	})
}

// Create makes a resource of the kind with the given spec.
func (k *Kind) Create(name string, spec map[string]any) *unstructured.Unstructured {
	k.env.Helper()
	obj := k.Named(name)
	if spec != nil {
		obj.Object["spec"] = spec
	}
	if err := k.env.Client.Create(k.env.Ctx, obj); err != nil {
		k.env.Fatal(err)
	}
	return obj
}

// Named returns an object of the kind with name and namespace alone.
func (k *Kind) Named(name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(k.GroupVersionKind)
	obj.SetNamespace(k.env.Namespace)
	obj.SetName(name)
	return obj
}

// Patch sends a JSON merge patch to the resource.
func (k *Kind) Patch(name, patch string) *unstructured.Unstructured {
	k.env.Helper()
	obj := k.Named(name)
	if err := k.env.Client.Patch(k.env.Ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		k.env.Fatal(err)
	}
	return obj
}

// Get returns the resource and its shared status.
func (k *Kind) Get(name string) (*unstructured.Unstructured, v1alpha1.CommonStatus) {
	k.env.Helper()
	obj := k.Named(name)
	if err := k.env.Client.Get(k.env.Ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		k.env.Fatal(err)
	}
	return obj, status.Read(obj)
}

// Delete deletes the resource and waits until it is gone.
func (k *Kind) Delete(name string) {
	k.env.Helper()
	if err := client.IgnoreNotFound(k.env.Client.Delete(k.env.Ctx, k.Named(name))); err != nil {
		k.env.Fatal(err)
	}
	k.WaitGone(name)
}

// WaitGone waits until the resource is gone.
func (k *Kind) WaitGone(name string) {
	k.env.Helper()
	k.env.Eventually(k.Kind+" "+name+" gone", func() error {
		obj := k.Named(name)
		err := k.env.Client.Get(k.env.Ctx, client.ObjectKeyFromObject(obj), obj)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("still there: %v, finalizers %v", obj.Object["status"], obj.GetFinalizers())
	})
}

// WaitFor waits until the status of the resource's current generation passes the check.
func (k *Kind) WaitFor(name, what string, check func(v1alpha1.CommonStatus) error) v1alpha1.CommonStatus {
	k.env.Helper()
	var st v1alpha1.CommonStatus
	k.env.Eventually(k.Kind+" "+name+" "+what, func() error {
		obj := k.Named(name)
		if err := k.env.Client.Get(k.env.Ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		st = status.Read(obj)
		if st.ObservedGeneration != obj.GetGeneration() {
			return fmt.Errorf("generation %d is not observed yet: %+v", obj.GetGeneration(), st)
		}
		return check(st)
	})
	return st
}

// WaitCondition waits for a condition of the resource's current generation.
func (k *Kind) WaitCondition(name, conditionType string, want metav1.ConditionStatus, reason string) v1alpha1.CommonStatus {
	k.env.Helper()
	return k.WaitFor(name, fmt.Sprintf("%s=%s(%s)", conditionType, want, reason), func(st v1alpha1.CommonStatus) error {
		c := Condition(st, conditionType)
		if c == nil || c.Status != want || (reason != "" && c.Reason != reason) {
			return fmt.Errorf("conditions: %s", Conditions(st))
		}
		return nil
	})
}

// WaitReady waits until the resource's current generation is released and ready.
func (k *Kind) WaitReady(name string) v1alpha1.CommonStatus {
	k.env.Helper()
	return k.WaitCondition(name, v1alpha1.ConditionReady, metav1.ConditionTrue, "")
}

// Condition returns the condition of that type, or nil.
func Condition(st v1alpha1.CommonStatus, conditionType string) *metav1.Condition {
	for i := range st.Conditions {
		if st.Conditions[i].Type == conditionType {
			return &st.Conditions[i]
		}
	}
	return nil
}

// Conditions shows a status in one line.
func Conditions(st v1alpha1.CommonStatus) string {
	var out []string
	for _, c := range st.Conditions {
		out = append(out, fmt.Sprintf("%s=%s(%s: %s)", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(out, " ")
}
