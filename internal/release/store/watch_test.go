// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"testing"
	"time"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/chartgate/chartgate/internal/identity"
	"github.com/chartgate/chartgate/test/controlplane"
)

func TestForbiddenWatchFallsBackAndRecovers(t *testing.T) {
	cluster := controlplane.Shared(t)
	ns := cluster.Namespace(t)
	alice := "alice-" + ns
	config, err := cluster.User(alice)
	must(t, err)
	o := newOperator(t, config, alice+"/1")
	begin := time.Now()
	d := o.driver(t, ns, Options{})
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("a forbidden watch is waited for %s", took)
	}
	if _, err := d.Records("a"); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want forbidden", err)
	}
	grant := func(verbs ...string) {
		t.Helper()
		name := alice + "-" + verbs[0]
		_, err := admin(t).RbacV1().Roles(ns).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: verbs}}}, metav1.CreateOptions{})
		must(t, err)
		_, err = admin(t).RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: alice}}}, metav1.CreateOptions{})
		must(t, err)
	}
	// The watch is of all namespaces, so these rights serve requests only.
	grant("get", "list", "create", "update", "delete", "patch")
	eventually(t, "the rights", func() error { _, err := d.Records("a"); return err })
	releases := storage.Init(d)
	for v := 1; v <= 2; v++ {
		rel := makeRelease("a", ns, v, helmrelease.StatusPendingInstall)
		must(t, releases.Create(rel))
		rel.SetStatus(helmrelease.StatusDeployed, "done")
		must(t, releases.Update(rel))
		last, err := releases.Last("a")
		must(t, err)
		if last.Version != v || last.Info.Status != helmrelease.StatusDeployed {
			t.Errorf("got %+v", last)
		}
	}
	if _, err := releases.Delete("a", 1); err != nil {
		t.Error(err)
	}
	if r, err := d.Records("a"); err != nil || len(r) != 1 {
		t.Errorf("got %v, error %v", r, err)
	}
	before := o.requests(t, begin, "list")
	_, err = d.Records("a")
	must(t, err)
	if o.requests(t, begin, "list") == before {
		t.Error("without a watch nothing was listed")
	}

	_, err = admin(t).RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: alice},
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: alice}}}, metav1.CreateOptions{})
	must(t, err)
	eventually(t, "the watch", func() error {
		if _, sure := d.view.find(types.NamespacedName{}); !sure {
			return errNotYet
		}
		return nil
	})
	since := time.Now()
	if r, err := d.Records("a"); err != nil || len(r) != 1 || r[0].Version != 2 {
		t.Errorf("got %v, error %v", r, err)
	}
	if n := o.requests(t, since, "list", "get"); n != 0 {
		t.Errorf("%d reads with a watch, want none", n)
	}
}

func TestImpersonatedWritesAreOwnWrites(t *testing.T) {
	cluster := controlplane.Shared(t)
	ns := cluster.Namespace(t)
	_, err := admin(t).RbacV1().Roles(ns).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}}}}, metav1.CreateOptions{})
	must(t, err)
	_, err = admin(t).RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "tenant"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ns, Name: "tenant"}}}, metav1.CreateOptions{})
	must(t, err)
	o := newOperator(t, cluster.Config(), "tenant/1")
	own := o.driver(t, ns, Options{})
	tenant, err := o.Driver(t.Context(), identity.Identity{Namespace: ns, ServiceAccount: "tenant"}, ns, Options{})
	must(t, err)
	eventually(t, "the tenant's rights", func() error { _, err := tenant.Records("a"); return err })
	for v := 1; v <= 5; v++ {
		must(t, tenant.Create(keyOf("a", v), makeRelease("a", ns, v, helmrelease.StatusDeployed)))
		for _, d := range []*Driver{own, tenant} {
			if r, err := d.Records("a"); err != nil || len(r) != v {
				t.Fatalf("after revision %d: %v, error %v", v, r, err)
			}
		}
	}
	time.Sleep(300 * time.Millisecond)
	if n := o.wokenCount(ns + "/a"); n != 0 {
		t.Errorf("own writes woke %d times", n)
	}
}

func TestOldWatchesEnd(t *testing.T) {
	cluster := controlplane.Shared(t)
	ns := cluster.Namespace(t)
	o := newOperator(t, cluster.Config(), "many/1", ns)
	o.limit = 8
	own := o.driver(t, ns, Options{})
	first := o.driver(t, "default", Options{})
	for i := range o.limit {
		o.driver(t, fmt.Sprintf("elsewhere-%d", i), Options{})
	}
	o.Store.mu.Lock()
	n, kept := len(o.views), own.view.usable()
	o.Store.mu.Unlock()
	if n != o.limit+1 || !kept || !first.view.stopped {
		t.Errorf("%d watches; the operator's own is kept: %v", n, kept)
	}
	if _, err := first.Records("a"); err != nil {
		t.Errorf("without its watch: %v", err)
	}
}

func TestWatchesLastAsLongAsSomebodyUsesThem(t *testing.T) {
	cluster := controlplane.Shared(t)
	ns := cluster.Namespace(t)
	o := newOperator(t, cluster.Config(), "used/1", ns)
	o.limit = 2
	watches := func(want int, what string) {
		t.Helper()
		o.Store.mu.Lock()
		defer o.Store.mu.Unlock()
		if len(o.views) != want {
			t.Errorf("%s: %d watches, want %d", what, len(o.views), want)
		}
	}
	a := o.driver(t, "a", Options{User: "one"})
	o.driver(t, "a", Options{User: "two"})
	o.driver(t, "b", Options{User: "three"})
	watches(2, "three users of two namespaces")
	late := o.driver(t, "c", Options{User: "four"})
	watches(2, "past the bound")
	since := time.Now()
	if _, err := late.Records("x"); err != nil {
		t.Errorf("without a watch: %v", err)
	}
	if n := o.requests(t, since, "list"); n != 1 {
		t.Errorf("without a watch %d lists were made", n)
	}
	if a.view.stopped {
		t.Error("a watch that is in use ended for a later one")
	}
	o.Forget("one")
	watches(2, "one of two users is gone")
	o.driver(t, "b", Options{User: "two"})
	watches(1, "the other one moved on")
	if !a.view.stopped {
		t.Error("a watch that serves nobody goes on")
	}
	o.driver(t, "c", Options{User: "four"})
	watches(2, "there is room again")
	for _, user := range []any{"two", "three", "four", "nobody"} {
		o.Forget(user)
	}
	watches(0, "all are gone")
	o.driver(t, ns, Options{User: "five"})
	o.Forget("five")
	watches(1, "the operator's own stays")
}
