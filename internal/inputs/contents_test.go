// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"errors"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/identity"
)

func secretObject(name, content string) string {
	return "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\nstringData: {" + content + "}"
}

func TestContentsAreReadOnceAndWatched(t *testing.T) {
	e := newEnv(t, "")
	c := e.Contents(identity.Operator, e.owner("one"))
	if _, err := c.Secret(t.Context(), "late"); !apierrors.IsNotFound(err) {
		t.Errorf("error %v", err)
	}
	e.apply(secretObject("late", "a: first"))
	e.waitWake("one", 0)
	e.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\ndata: {a: text}\nbinaryData: {b: AQI=}")
	before := time.Now()
	for range 3 {
		if data, err := c.Secret(t.Context(), "late"); err != nil || string(data["a"]) != "first" {
			t.Errorf("data %v, %v", data, err)
		}
		if data, err := c.ConfigMap(t.Context(), "config"); err != nil || string(data["a"]) != "text" || string(data["b"]) != "\x01\x02" {
			t.Errorf("data %v, %v", data, err)
		}
	}
	if got := strings.Join(e.requests(before), " "); strings.Count(got, "get ") != 2 {
		t.Errorf("requests %s", got)
	}
	woken := e.wakes("one")
	e.apply(secretObject("late", "a: second"))
	e.waitWake("one", woken)
	if data, err := c.Secret(t.Context(), "late"); err != nil || string(data["a"]) != "second" {
		t.Errorf("data %v, %v", data, err)
	}
	// A gate that looks at the same Secret is told of its keys, and of nothing else.
	ref := e.ref(secrets, "late")
	if _, err := e.For(identity.Operator, e.owner("one")).Object(t.Context(), ref); !errors.Is(err, errSecret) {
		t.Errorf("a gate read a Secret: %v", err)
	}
}

func TestContentsStayWatchedForAsLongAsTheyAreRead(t *testing.T) {
	e := newEnv(t, "")
	owner, ref := e.owner("one"), e.ref(secrets, "shared")
	c := e.Contents(identity.Operator, owner)
	watched := func() bool {
		e.Inputs.mu.Lock()
		defer e.Inputs.mu.Unlock()
		return len(e.watches) > 0
	}
	_, _ = c.Secret(t.Context(), "shared")
	e.Refer(owner, identity.Operator, []gate.Ref{ref})
	_, _ = e.For(identity.Operator, owner).Keys(t.Context(), ref)
	for range 3 { // the gate is gone, the values stay
		_, _ = c.Secret(t.Context(), "shared")
		e.Refer(owner, identity.Operator, nil)
		if !watched() {
			t.Fatal("what is still read is not watched any more")
		}
	}
	e.Refer(owner, identity.Operator, nil)
	if watched() || len(e.owners) != 0 {
		t.Error("what is not read any more is still watched")
	}
}

func TestTenantsReadContentsWithTheirOwnRights(t *testing.T) {
	e := newEnv(t, "")
	tenant := identity.Identity{Namespace: e.namespace, ServiceAccount: "default"}
	e.apply(secretObject("theirs", "a: b"))
	if data, err := e.Contents(identity.Operator, e.owner("other")).Secret(t.Context(), "theirs"); err != nil || len(data) != 1 {
		t.Errorf("data %v, %v", data, err)
	}
	c := e.Contents(tenant, e.owner("one"))
	if _, err := c.Secret(t.Context(), "theirs"); err == nil {
		t.Error("the tenant reads what it may not")
	} else if denied, ok := errors.AsType[*gate.ForbiddenError](err); !ok || denied.User != tenant.String() {
		t.Errorf("error %v", err)
	}
	e.grant(rbacv1.Subject{Kind: "ServiceAccount", Name: "default", Namespace: e.namespace}, rule("secrets", "get", "list", "watch"))
	e.waitWake("one", 0)
	if data, err := c.Secret(t.Context(), "theirs"); err != nil || string(data["a"]) != "b" {
		t.Errorf("data %v, %v", data, err)
	}
}
