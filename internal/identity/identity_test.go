// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

func TestOnlyPlainNamesAreServiceAccounts(t *testing.T) {
	for name, want := range map[string]bool{
		"default": true, "ci.deployer": true, "a": true,
		"": false, "kube-system:admin": false, "../x": false, "A": false, "a b": false, "a\nImpersonate-Group: system:masters": false,
		strings.Repeat("a", 254): false,
	} {
		id, err := ServiceAccount("team-a", name)
		if (err == nil) != want {
			t.Errorf("%q: %v, error %v", name, id, err)
		}
		if err != nil && id != Operator {
			t.Errorf("%q: %v", name, id)
		}
	}
	if _, err := ServiceAccount("", "default"); err == nil {
		t.Error("a ServiceAccount without a namespace")
	}
}

func TestImpersonationNamesNoGroups(t *testing.T) {
	base := &rest.Config{Host: "https://example.com"}
	cfg := Identity{Namespace: "team-a", ServiceAccount: "deployer"}.Config(base)
	if got := cfg.Impersonate; got.UserName != "system:serviceaccount:team-a:deployer" || len(got.Groups) > 0 || got.UID != "" || len(got.Extra) > 0 {
		t.Errorf("impersonates %+v", got)
	}
	if got := Operator.Config(base).Impersonate; got.UserName != "" {
		t.Errorf("the operator impersonates %+v", got)
	}
}

func TestClientsAreKeptWithinABound(t *testing.T) {
	pool := NewPool(&rest.Config{Host: "https://127.0.0.1:1"})
	operator, err := pool.For(Operator)
	if err != nil {
		t.Fatal(err)
	}
	first, err := pool.For(Identity{"ns", "first"})
	if err != nil {
		t.Fatal(err)
	}
	if first.Mapper != operator.Mapper || first.served != operator.served {
		t.Error("what the API server serves is asked anew for each identity")
	}
	if again, err := pool.For(Identity{"ns", "first"}); err != nil || again != first {
		t.Errorf("clients are made anew: %v", err)
	}
	for i := range 2 * maxIdentities {
		if _, err := pool.For(Identity{"ns", fmt.Sprintf("n%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := pool.others.Len(); n != maxIdentities {
		t.Errorf("%d identities keep their clients", n)
	}
	if again, err := pool.For(Operator); err != nil || again != operator {
		t.Errorf("the operator's own clients are not kept: %v", err)
	}
}

func refusal(group, resource, what string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, "x", errors.New(what))
}

func TestDenials(t *testing.T) {
	create := refusal("apps", "deployments", `User "system:serviceaccount:a:sa" cannot create resource "deployments" in API group "apps" in the namespace "b"`)
	patch := refusal("", "nodes", `User "system:serviceaccount:a:sa" cannot patch resource "nodes/status" in API group "" at the cluster scope: RBAC: clusterrole "x" not found`)
	err := fmt.Errorf("install: %w", errors.Join(
		fmt.Errorf("create Deployment b/x: %w", create), patch, create,
		refusal("", "pods", `User "u" cannot get resource "pods" in API group "" in the namespace "$(touch x)"`),
		refusal("", "pods", `User "u" cannot get resource "pods;x" in API group "" at the cluster scope`),
		refusal("", "pods", "exceeded quota: small"), errors.New(`User "u" cannot get resource "faked" in API group "" at the cluster scope`),
	))
	got := Denials(err)
	want := []Denied{
		{User: "system:serviceaccount:a:sa", Verb: "create", Group: "apps", Resource: "deployments", Namespace: "b"},
		{User: "system:serviceaccount:a:sa", Verb: "patch", Resource: "nodes/status"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	if got := Denials(nil); got != nil {
		t.Errorf("%v", got)
	}
	if s := Sentence(got); s != "system:serviceaccount:a:sa may not create deployments.apps in namespace b, patch nodes/status in the whole cluster" {
		t.Error(s)
	}
	if s := Plain(fmt.Errorf("create Deployment b/x: %w", create).Error(), err); s != "create Deployment b/x: forbidden" {
		t.Error(s)
	}
}

func TestGrantIsTheCommandsThatHelp(t *testing.T) {
	id := Identity{Namespace: "a", ServiceAccount: "sa"}
	for _, c := range []struct {
		missing []Denied
		verbs   []string
		want    string
	}{
		{nil, []string{"get"}, ""},
		{
			[]Denied{{Resource: "nodes"}, {Resource: "pods", Namespace: "b"}},
			[]string{"create"},
			"kubectl create role a-sa-pods -n b --verb=create --resource=pods && kubectl create rolebinding a-sa-pods -n b --role=a-sa-pods --serviceaccount=a:sa\n" +
				"kubectl create clusterrole a-sa-nodes --verb=create --resource=nodes && kubectl create clusterrolebinding a-sa-nodes --clusterrole=a-sa-nodes --serviceaccount=a:sa",
		},
		{
			[]Denied{{Group: "apps", Resource: "deployments", Namespace: "a"}, {Resource: "services", Namespace: "a"}, {Resource: "services", Namespace: "a"}},
			[]string{"get", "create"},
			"kubectl create role sa-deployments -n a --verb=get,create --resource=deployments.apps,services && " +
				"kubectl create rolebinding sa-deployments -n a --role=sa-deployments --serviceaccount=a:sa",
		},
		{
			[]Denied{{Resource: "secrets", Namespace: "b"}},
			[]string{"get", "list"},
			"kubectl create role a-sa-secrets-read -n b --verb=get,list --resource=secrets && " +
				"kubectl create rolebinding a-sa-secrets-read -n b --role=a-sa-secrets-read --serviceaccount=a:sa",
		},
		{
			[]Denied{{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}},
			[]string{"create"},
			"kubectl create clusterrole a-sa-clusterroles --verb=create --resource=clusterroles.rbac.authorization.k8s.io && " +
				"kubectl create clusterrolebinding a-sa-clusterroles --clusterrole=a-sa-clusterroles --serviceaccount=a:sa",
		},
	} {
		if got := strings.Join(id.Grants(c.missing, c.verbs), "\n"); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}
