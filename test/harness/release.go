// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// History returns the stored revisions of a release in the test's namespace, oldest first.
func (e *Env) History(name string) []*helmrelease.Release {
	e.Helper()
	rels, err := storage.Init(driver.NewSecrets(e.Kube.CoreV1().Secrets(e.Namespace))).History(name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	if err != nil {
		e.Fatal(err)
	}
	sort.Slice(rels, func(i, j int) bool { return rels[i].Version < rels[j].Version })
	return rels
}

// Statuses shows a history as "1:superseded 2:deployed".
func (e *Env) Statuses(name string) string {
	e.Helper()
	var out []string
	for _, r := range e.History(name) {
		out = append(out, fmt.Sprintf("%d:%s", r.Version, r.Info.Status))
	}
	return strings.Join(out, " ")
}

// WantHistory fails the test unless the history is as given, in the form of Statuses.
func (e *Env) WantHistory(name, want string) {
	e.Helper()
	if got := e.Statuses(name); got != want {
		e.Errorf("history of release %s is %q, want %q", name, got, want)
	}
}

// Object reads an object of the test's namespace, nil where there is none.
// Cluster-scoped kinds are read as such.
func (e *Env) Object(apiVersion, kind, name string) *unstructured.Unstructured {
	e.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	err := e.Client.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, obj)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		e.Fatal(err)
	}
	return obj
}

// WaitObject waits until the object exists and passes the check.
func (e *Env) WaitObject(apiVersion, kind, name string, check func(*unstructured.Unstructured) error) *unstructured.Unstructured {
	e.Helper()
	var obj *unstructured.Unstructured
	e.Eventually(kind+" "+name, func() error {
		if obj = e.Object(apiVersion, kind, name); obj == nil {
			return errors.New("does not exist")
		}
		if check == nil {
			return nil
		}
		return check(obj)
	})
	return obj
}

// WaitObjectGone waits until the object does not exist.
func (e *Env) WaitObjectGone(apiVersion, kind, name string) {
	e.Helper()
	e.Eventually(kind+" "+name+" gone", func() error {
		if e.Object(apiVersion, kind, name) != nil {
			return errors.New("still exists")
		}
		return nil
	})
}

// Helm runs the real helm CLI as the control plane's administrator, in the
// test's namespace, and returns what it prints.
func (e *Env) Helm(args ...string) string {
	e.Helper()
	return e.run(e.HelmProgram(), append([]string{"--namespace", e.Namespace}, args...))
}

// HelmProgram is the path of the Helm CLI: $HELM, or the one that make helm builds.
func (e *Env) HelmProgram() string {
	if helm := os.Getenv("HELM"); helm != "" {
		return helm
	}
	return filepath.Join(e.Root(), "bin", "helm")
}

// Run runs a program as the control plane's administrator and returns what it prints.
func (e *Env) run(program string, args []string) string {
	e.Helper()
	cmd := exec.CommandContext(e.Ctx, program, args...) // #nosec G204 -- the program is the test's own choice
	cmd.Env = append(os.Environ(), "KUBECONFIG="+e.Cluster.KubeconfigPath())
	out, err := cmd.CombinedOutput()
	if err != nil {
		e.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Root returns the folder of the checkout.
func (e *Env) Root() string {
	e.Helper()
	dir, err := os.Getwd()
	if err != nil {
		e.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			e.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}
