// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/controlplane"
)

// Guestbook is the kind that comes with the operator. Its CRD is in config/crd.
func (e *Env) Guestbook() *Kind {
	return &Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Kind: "Guestbook"},
		Chart:            "helm-charts/guestbook", env: e,
	}
}

// Rendered returns what make deploy applies of an overlay of config/ in a namespace.
func (e *Env) Rendered(overlay, namespace string) []*unstructured.Unstructured {
	e.Helper()
	programs, err := controlplane.Resolve(e.Ctx, os.Stderr, controlplane.Kubectl)
	if err != nil {
		e.Fatal(err)
	}
	// kubectl has kustomize built in, under another command.
	kustomize := filepath.Join(e.TempDir(), "kustomize")
	script := fmt.Sprintf("#!/bin/sh\nshift\nexec %q kustomize \"$@\"\n", programs[controlplane.Kubectl])
	if err := os.WriteFile(kustomize, []byte(script), 0o700); err != nil { // #nosec G306 -- it is to be executed
		e.Fatal(err)
	}
	cmd := exec.CommandContext(e.Ctx, filepath.Join(e.Root(), "hack", "render.sh"), "--overlay", overlay, "--namespace", namespace) // #nosec G204 -- the test's own choice
	cmd.Env = append(os.Environ(), "KUSTOMIZE="+kustomize)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		e.Fatalf("render %s: %v\n%s", overlay, err, stderr.String())
	}
	var objects []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096); ; {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			e.Fatalf("render %s: %v", overlay, err)
		}
		objects = append(objects, obj)
	}
}

// Apply applies the objects of the given kinds as they are rendered, until the end
// of the test: then those of them go that were made here, but for CRDs.
func (e *Env) Apply(objects []*unstructured.Unstructured, kinds ...string) {
	e.Helper()
	for _, o := range objects {
		if !slices.Contains(kinds, o.GetKind()) {
			continue
		}
		obj := o.DeepCopy()
		err := e.Client.Create(e.Ctx, obj)
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		if err != nil {
			e.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
		if o.GetKind() == "CustomResourceDefinition" {
			e.Kubectl("wait", "--for=condition=Established", "crd/"+o.GetName())
			continue
		}
		e.Cleanup(func() { // the test's context has ended by then
			if err := client.IgnoreNotFound(e.Client.Delete(context.WithoutCancel(e.Ctx), obj)); err != nil {
				e.Errorf("delete %s %s: %v", obj.GetKind(), obj.GetName(), err)
			}
		})
	}
}

// Rights are the kinds that make up an operator's rights, in the order they are made in.
var Rights = []string{"Namespace", "ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"}

// ServiceAccountConfig returns a configuration that acts as the ServiceAccount, by a token as pods have.
func (e *Env) ServiceAccountConfig(namespace, name string) *rest.Config {
	e.Helper()
	token, err := e.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(e.Ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		e.Fatalf("token of ServiceAccount %s/%s: %v", namespace, name, err)
	}
	admin := e.Cluster.Config()
	return &rest.Config{
		Host: admin.Host, BearerToken: token.Status.Token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData, CAFile: admin.CAFile},
	}
}

// RoleRules returns the rules of the rendered Role or ClusterRole.
func (e *Env) RoleRules(objects []*unstructured.Unstructured, kind, name string) []rbacv1.PolicyRule {
	e.Helper()
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
				e.Fatal(err)
			}
			return role.Rules
		}
	}
	e.Fatalf("there is no %s %s", kind, name)
	return nil
}

// Sample returns the objects of sample files in config/samples, in the test's namespace.
func (e *Env) Sample(files ...string) []*unstructured.Unstructured {
	e.Helper()
	var objects []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(e.Root(), "config", "samples", file))
		if err != nil {
			e.Fatal(err)
		}
		for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
			obj := &unstructured.Unstructured{}
			err := decoder.Decode(&obj.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				e.Fatalf("%s: %v", file, err)
			}
			obj.SetNamespace(e.Namespace)
			subjects, _, _ := unstructured.NestedSlice(obj.Object, "subjects")
			for _, s := range subjects {
				if subject, ok := s.(map[string]any); ok {
					subject["namespace"] = e.Namespace // the file says which one it is applied to
				}
			}
			if len(subjects) > 0 {
				obj.Object["subjects"] = subjects
			}
			objects = append(objects, obj)
		}
	}
	return objects
}
