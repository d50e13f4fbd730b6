// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/identity"
	"github.com/chartgate/chartgate/test/controlplane"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(controlplane.Main(m, controlplane.Options{AuditLog: true}))
}

const wait = 30 * time.Second

var (
	configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	secrets    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	services   = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	appGK      = schema.GroupKind{Group: "apps.chartgate.dev", Kind: "Guestbook"}
)

// env is one test's inputs on the shared control plane.
type env struct {
	testing.TB
	cluster   *controlplane.Cluster
	admin     *identity.Clients
	namespace string
	agent     string
	*Inputs

	mu    sync.Mutex
	woken map[string]int
}

// newEnv returns inputs that act as the user; "" is the administrator.
func newEnv(t testing.TB, user string) *env {
	t.Helper()
	e := &env{TB: t, cluster: controlplane.Shared(t), agent: "inputs-" + rand.String(8), woken: map[string]int{}}
	e.admin = clients(t, e.cluster.Config())
	for _, kind := range []string{"guestbooks", "releaseapprovals"} {
		e.crd(kind)
	}
	e.namespace = e.cluster.Namespace(t)
	cfg := e.cluster.Config()
	if user != "" {
		cfg = e.user(user)
	}
	cfg.UserAgent = e.agent
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	e.Inputs = New(ctx, identity.NewPool(cfg), logr.Discard(), func(o dependents.Owner) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.woken[o.Name]++
	})
	e.retry = 300 * time.Millisecond
	return e
}

func clients(t testing.TB, cfg *rest.Config) *identity.Clients {
	t.Helper()
	c, err := identity.NewPool(cfg).For(identity.Operator)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (e *env) user(name string) *rest.Config {
	e.Helper()
	cfg, err := e.cluster.User(name)
	if err != nil {
		e.Fatal(err)
	}
	return cfg
}

// crd installs a CRD of config/crd/bases, and waits until it is served.
func (e *env) crd(plural string) {
	e.Helper()
	e.applyFile(filepath.Join("../../config/crd/bases", "apps.chartgate.dev_"+plural+".yaml"))
	gvr := v1alpha1.GroupVersion.WithResource(plural)
	e.eventually(plural+" are served", func() error {
		_, err := e.admin.Dynamic.Resource(gvr).List(e.Context(), metav1.ListOptions{})
		return err
	})
}

func (e *env) applyFile(file string) *unstructured.Unstructured {
	e.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		e.Fatal(err)
	}
	return e.apply(string(content))
}

// apply creates or changes an object, in the test's namespace unless it names another.
func (e *env) apply(document string) *unstructured.Unstructured {
	e.Helper()
	obj, err := tryApply(e.Context(), e.admin, e.namespace, document)
	if err != nil {
		e.Fatalf("%v in %s", err, document)
	}
	return obj
}

func tryApply(ctx context.Context, c *identity.Clients, namespace, document string) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(document))
	if err == nil {
		err = obj.UnmarshalJSON(content)
	}
	if err != nil {
		return nil, err
	}
	gvk := obj.GroupVersionKind()
	mapping, err := c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace && obj.GetNamespace() == "" {
		obj.SetNamespace(namespace)
	}
	return c.Dynamic.Resource(mapping.Resource).Namespace(obj.GetNamespace()).Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true})
}

func (e *env) delete(gvk schema.GroupVersionKind, name string) {
	e.Helper()
	mapping, err := e.admin.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		e.Fatal(err)
	}
	namespace := ""
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace = e.namespace
	}
	err = e.admin.Dynamic.Resource(mapping.Resource).Namespace(namespace).Delete(context.WithoutCancel(e.Context()), name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		e.Error(err)
	}
}

// grant lets a user do what the rules say in the test's namespace.
func (e *env) grant(subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	e.Helper()
	name := "grant-" + rand.String(6)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if _, err := e.admin.Kubernetes.RbacV1().Roles(e.namespace).Create(e.Context(), role, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: name}}
	if _, err := e.admin.Kubernetes.RbacV1().RoleBindings(e.namespace).Create(e.Context(), binding, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
}

func rule(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"", "apps.chartgate.dev"}, Resources: []string{resource}, Verbs: verbs}
}

func (e *env) owner(name string) dependents.Owner {
	return dependents.Owner{GroupKind: appGK, NamespacedName: types.NamespacedName{Namespace: e.namespace, Name: name}}
}

func (e *env) ref(gvk schema.GroupVersionKind, name string) gate.Ref {
	return gate.Ref{GroupVersionKind: gvk, Namespace: e.namespace, Name: name}
}

// reader refers to the objects for the owner, and returns its reader.
func (e *env) reader(owner string, refs ...gate.Ref) gate.Reader {
	e.Refer(e.owner(owner), identity.Operator, refs)
	return e.For(identity.Operator, e.owner(owner))
}

// wakes are how often the owner was woken.
func (e *env) wakes(owner string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.woken[owner]
}

// waitWake waits until the owner was woken once more than before.
func (e *env) waitWake(owner string, before int) {
	e.Helper()
	e.eventually(owner+" is woken", func() error {
		if got := e.wakes(owner); got <= before {
			return fmt.Errorf("woken %d times", got)
		}
		return nil
	})
}

func (e *env) eventually(what string, check func() error) {
	e.Helper()
	deadline := time.Now().Add(wait)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			e.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// requests are those of the inputs since the time, as "verb resource/name".
func (e *env) requests(since time.Time) []string {
	e.Helper()
	events, err := e.cluster.AuditEvents(e.Context(), controlplane.ByUserAgent(e.agent), controlplane.Since(since))
	if err != nil {
		e.Fatal(err)
	}
	var all []string
	for _, event := range events {
		if event.ObjectRef.Resource != "" {
			all = append(all, strings.TrimSuffix(event.Verb+" "+event.ObjectRef.Resource+"/"+event.ObjectRef.Name, "/"))
		}
	}
	return all
}

func count(all []string, want string) int {
	n := 0
	for _, s := range all {
		if s == want {
			n++
		}
	}
	return n
}
