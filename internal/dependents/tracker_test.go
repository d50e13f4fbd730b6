// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package dependents

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/chartgate/chartgate/internal/identity"
	"github.com/chartgate/chartgate/test/controlplane"
)

// scene is a tracker on a real API server, in a namespace of its own.
type scene struct {
	*testing.T
	tracker   *Tracker
	pool      *identity.Pool
	admin     kubernetes.Interface
	namespace string
	woken     chan Owner
}

func newScene(t *testing.T, namespaces ...string) *scene {
	t.Helper()
	cluster := controlplane.Shared(t)
	admin, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, pool: identity.NewPool(cluster.Config()), admin: admin, namespace: cluster.Namespace(t), woken: make(chan Owner, 100)}
	s.tracker = NewTracker(t.Context(), s.pool, namespaces, logr.Discard(), func(o Owner) { s.woken <- o })
	s.tracker.retry = 200 * time.Millisecond
	return s
}

func (s *scene) ref(resource, kind, namespace, name string) Ref {
	s.Helper()
	operator, err := s.pool.For(identity.Operator)
	if err != nil {
		s.Fatal(err)
	}
	mapping, err := operator.Mapper.RESTMapping(schema.GroupKind{Kind: kind}, "v1")
	if err != nil || mapping.Resource.Resource != resource {
		s.Fatalf("%v: %v", mapping, err)
	}
	return Ref{Mapping: mapping, Namespace: namespace, Name: name}
}

func (s *scene) owner(name string) Owner {
	return Owner{GroupKind: schema.GroupKind{Group: "test.dev", Kind: "Book"}, NamespacedName: types.NamespacedName{Namespace: s.namespace, Name: name}}
}

// tenant is a ServiceAccount with the rules in the test's namespace.
func (s *scene) tenant(name string, rules ...rbacv1.PolicyRule) identity.Identity {
	s.Helper()
	s.grant(name, rules...)
	return identity.Identity{Namespace: s.namespace, ServiceAccount: name}
}

func (s *scene) grant(name string, rules ...rbacv1.PolicyRule) {
	s.Helper()
	_, err := s.admin.RbacV1().Roles(s.namespace).Create(s.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	if err == nil {
		_, err = s.admin.RbacV1().RoleBindings(s.namespace).Create(s.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: name}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		s.Fatal(err)
	}
}

func reading(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
}

// configMap makes a released ConfigMap of the owner.
func (s *scene) configMap(owner Owner, name string) *unstructured.Unstructured {
	s.Helper()
	cm, err := s.admin.CoreV1().ConfigMaps(s.namespace).Create(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "test.dev/v1", Kind: owner.Kind, Name: owner.Name, UID: "1", Controller: new(true)}},
	}}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cm)
	if err != nil {
		s.Fatal(err)
	}
	obj := &unstructured.Unstructured{Object: content}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	return obj
}

func (s *scene) watch(owner Owner, id identity.Identity, refs ...Ref) {
	s.Helper()
	if err := s.tracker.Watch(s.Context(), owner, id, refs); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) watches(want int, what string) {
	s.Helper()
	s.tracker.mu.Lock()
	defer s.tracker.mu.Unlock()
	if len(s.tracker.informers) != want {
		s.Errorf("%s: %d watches, want %d: %v", what, len(s.tracker.informers), want, s.tracker.informers)
	}
}

func (s *scene) eventually(what string, check func() error) {
	s.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *scene) wakes(want Owner) {
	s.Helper()
	select {
	case got := <-s.woken:
		if got != want {
			s.Errorf("woke %v, want %v", got, want)
		}
	case <-time.After(30 * time.Second):
		s.Fatalf("%v is not woken", want)
	}
}

// A tenant's watches end at the namespaces of their objects, and with the last resource that has any.
func TestWatchesOfTenantsComeAndGo(t *testing.T) {
	s := newScene(t)
	id := s.tenant("robot", reading("configmaps", "list", "watch", "get"))
	one, two := s.owner("one"), s.owner("two")
	here := s.ref("configmaps", "ConfigMap", s.namespace, "a")
	s.watch(one, id, here)
	s.watch(two, id, here)
	s.watches(1, "two resources with a kind in common")
	obj := s.configMap(one, "a")
	s.wakes(one)
	owner := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "test.dev/v1", "kind": "Book", "metadata": map[string]any{"name": "one", "namespace": s.namespace}}}
	s.tracker.Verified(owner, obj, 1)
	s.tracker.Retain(one, id, []Ref{here}, Basis{})
	s.eventually("the watch is believed", func() error {
		if !s.tracker.Unchanged(owner, id, here, 1, "") {
			return errors.New("changed")
		}
		return nil
	})
	if s.tracker.Unchanged(owner, identity.Identity{Namespace: s.namespace, ServiceAccount: "other"}, here, 1, "") {
		t.Error("what one identity watches is believed for another")
	}

	s.tracker.Forget(two) // it was never released, so it retained nothing
	s.watches(1, "one of two is gone")
	s.watch(one, id, here, s.ref("configmaps", "ConfigMap", "elsewhere", "a"))
	s.watches(2, "an object in another namespace")
	s.tracker.Retain(one, id, []Ref{here}, Basis{})
	s.watches(1, "that object is no more")
	other := s.tenant("other", reading("configmaps", "list", "watch", "get"))
	s.watch(one, other, here)
	s.tracker.Retain(one, other, []Ref{here}, Basis{})
	s.watches(1, "somebody else serves it")
	s.tracker.Forget(one)
	s.watches(0, "all are gone")
}

// The operator's own watches are of all namespaces, or of those that it is limited to.
func TestScopesOfWatches(t *testing.T) {
	robot := identity.Identity{Namespace: "a", ServiceAccount: "robot"}
	s := newScene(t)
	in, of := s.ref("configmaps", "ConfigMap", "b", "x"), s.ref("namespaces", "Namespace", "", "x")
	for _, c := range []struct {
		limits []string
		id     identity.Identity
		ref    Ref
		want   string
	}{
		{nil, identity.Operator, in, "[]"},
		{[]string{"a", "c"}, identity.Operator, in, "[a c]"},
		{nil, robot, in, "[b]"},
		{[]string{"a", "c"}, robot, in, "[b]"},
		{[]string{"a"}, robot, of, "[]"},
		{[]string{"a"}, identity.Operator, of, "[]"},
	} {
		s.tracker.namespaces = c.limits
		if got := fmt.Sprint(s.tracker.scopes(c.id, c.ref)); got != c.want {
			t.Errorf("limits %v, %v, %s: %s, want %s", c.limits, c.id, c.ref.Name, got, c.want)
		}
	}
	if in.Mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		t.Error("scope")
	}
}

// A watch that is refused holds nobody up, is believed in nothing, and stands as soon as it is allowed.
func TestRefusedWatchIsTriedAgain(t *testing.T) {
	for name, verbs := range map[string][]string{"nothing": {"get"}, "no list": {"get", "watch"}, "no watch": {"get", "list"}} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			id := s.tenant("robot", reading("configmaps", verbs...))
			owner, ref := s.owner("one"), s.ref("configmaps", "ConfigMap", s.namespace, "a")
			obj := s.configMap(owner, "a")
			start := time.Now()
			s.watch(owner, id, ref)
			if took := time.Since(start); took > settleTimeout/2 {
				t.Errorf("waited %s for a watch that is refused", took)
			}
			s.tracker.Retain(owner, id, []Ref{ref}, Basis{})
			if name != "no list" { // enough for a watch that begins with what there is
				if ready := s.tracker.Readiness(s.Context(), owner, id, []Ref{ref}); !ready.Ready {
					t.Errorf("an object that can't be watched is not read: %+v", ready)
				}
			}
			cr := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "test.dev/v1", "kind": "Book", "metadata": map[string]any{"name": "one", "namespace": s.namespace}}}
			s.tracker.Verified(cr, obj, 1)
			s.grant("robot-more", reading("configmaps", "get", "list", "watch"))
			if _, err := s.admin.RbacV1().RoleBindings(s.namespace).Create(s.Context(), &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "more"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "robot-more"},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: "robot"}},
			}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			s.eventually("the watch stands", func() error {
				if !s.tracker.Unchanged(cr, id, ref, 1, "") {
					return errors.New("it doesn't")
				}
				return nil
			})
		})
	}
}

// Past the bound nothing more is watched for tenants; the operator itself is not bounded.
func TestWatchesOfTenantsAreBounded(t *testing.T) {
	s := newScene(t)
	s.tracker.limit = 2
	id := s.tenant("robot", reading("configmaps", "list", "watch", "get"))
	for i := range 4 {
		s.watch(s.owner(fmt.Sprint(i)), id, s.ref("configmaps", "ConfigMap", fmt.Sprintf("ns-%d", i), "a"))
	}
	s.watches(2, "past the bound")
	s.watch(s.owner("own"), identity.Operator, s.ref("configmaps", "ConfigMap", s.namespace, "a"))
	s.watches(3, "the operator's own")
	s.tracker.Forget(s.owner("0"))
	s.tracker.Forget(s.owner("own"))
	s.watch(s.owner("3"), id, s.ref("configmaps", "ConfigMap", "ns-3", "a"))
	s.watches(2, "there is room again")
}
