// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/identity"
)

// canary is a value that is nowhere to be found.
const canary = "canary-5f1e9a"

func configMap(name, data string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {" + data + "}"
}

func TestAnEventWakesItsReferrersAlone(t *testing.T) {
	e := newEnv(t, "")
	mine, other := e.ref(configMaps, "mine"), e.ref(configMaps, "other")
	r := e.reader("one", mine)
	both := e.reader("both", mine, other)
	bystander := e.reader("bystander", other)
	for _, read := range []struct {
		gate.Reader
		gate.Ref
	}{{r, mine}, {both, mine}, {both, other}, {bystander, other}} {
		if _, err := read.Keys(t.Context(), read.Ref); !errors.Is(err, gate.ErrNotFound) {
			t.Errorf("%s: %v", read.Ref, err)
		}
	}
	before := time.Now()
	e.apply(configMap("mine", "b: one, a: two"))
	e.waitWake("one", 0)
	e.waitWake("both", 0)
	for _, reader := range []gate.Reader{r, both, r, both} {
		if keys, err := reader.Keys(t.Context(), mine); err != nil || !slices.Equal(keys, []string{"a", "b"}) {
			t.Errorf("keys %v, %v", keys, err)
		}
	}
	if n := e.wakes("bystander"); n != 0 {
		t.Errorf("the bystander was woken %d times", n)
	}
	if got := e.requests(before); len(got) != 1 || got[0] != "get configmaps/mine" {
		t.Errorf("requests %v", got)
	}

	woken := e.wakes("one")
	e.apply(configMap("mine", "c: three"))
	e.waitWake("one", woken)
	if keys, err := r.Keys(t.Context(), mine); err != nil || !slices.Equal(keys, []string{"c"}) {
		t.Errorf("keys %v, %v", keys, err)
	}
	obj, err := r.Object(t.Context(), mine)
	if err != nil || fmt.Sprint(obj.Object["data"]) != "map[c:three]" || obj.GetManagedFields() != nil {
		t.Errorf("object %v, %v", obj, err)
	}
	woken = e.wakes("one")
	e.delete(configMaps, "mine")
	e.waitWake("one", woken)
	if _, err := r.Keys(t.Context(), mine); !errors.Is(err, gate.ErrNotFound) {
		t.Errorf("after it is gone: %v", err)
	}
}

func TestOfSecretsOnlyTheNamesOfKeysAreKept(t *testing.T) {
	e := newEnv(t, "")
	ref := e.ref(secrets, "s")
	e.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: {note: " + canary + "}}\nstringData: {password: " + canary + "}")
	before := time.Now()
	for i := range 5 {
		r := e.reader(fmt.Sprint("owner", i), ref)
		if keys, err := r.Keys(t.Context(), ref); err != nil || !slices.Equal(keys, []string{"password"}) {
			t.Errorf("keys %v, %v", keys, err)
		}
		if _, err := r.Object(t.Context(), ref); err == nil {
			t.Error("its content can be read")
		}
	}
	got := e.requests(before)
	if count(got, "get secrets/s") != 1 {
		t.Errorf("requests %v", got)
	}
	for _, w := range e.watches {
		for _, obj := range w.store.List() {
			if s := fmt.Sprintf("%+v", obj); strings.Contains(s, canary) {
				t.Errorf("the store holds %s", s)
			}
		}
		for _, b := range w.bodies.byName {
			if b.object != nil || strings.Contains(fmt.Sprint(b.keys), canary) {
				t.Errorf("kept: %+v", b)
			}
		}
	}
}

func TestObjectsAreWatchedWhole(t *testing.T) {
	e := newEnv(t, "")
	ref := e.ref(services, "s")
	e.apply("apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}]}")
	r := e.reader("one", ref)
	obj, err := r.Object(t.Context(), ref)
	if err != nil || obj.GetManagedFields() != nil || obj.GetKind() != "Service" {
		t.Fatalf("object %v, %v", obj, err)
	}
	before := time.Now()
	e.apply("apiVersion: v1\nkind: Service\nmetadata: {name: s, labels: {a: b}}\nspec: {ports: [{port: 80}]}")
	e.waitWake("one", 0)
	if obj, err = r.Object(t.Context(), ref); err != nil || obj.GetLabels()["a"] != "b" {
		t.Errorf("object %v, %v", obj, err)
	}
	if got := e.requests(before); len(got) != 0 {
		t.Errorf("requests %v", got)
	}
	kind, err := r.Kind(t.Context(), schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	if want := (gate.Kind{Resource: "namespaces"}); err != nil || kind != want {
		t.Errorf("kind %+v, %v", kind, err)
	}
	cluster := gate.Ref{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Name: e.namespace}
	if _, err := r.Object(t.Context(), cluster); err != nil {
		t.Errorf("a cluster-scoped object: %v", err)
	}
	var noKind *gate.NoKindError
	if _, err := r.Object(t.Context(), e.ref(schema.GroupVersionKind{Group: "x.dev", Version: "v1", Kind: "None"}, "n")); !errors.As(err, &noKind) {
		t.Errorf("a kind that is not served: %v", err)
	}
}

func TestWatchesEndWithTheirLastUse(t *testing.T) {
	e := newEnv(t, "")
	a, b := e.ref(configMaps, "a"), e.ref(services, "b")
	watches := func() int {
		e.Inputs.mu.Lock()
		defer e.Inputs.mu.Unlock()
		return len(e.watches)
	}
	read := func(owner string, refs ...gate.Ref) {
		r := e.reader(owner, refs...)
		for _, ref := range refs {
			_, _ = r.Object(t.Context(), ref)
		}
	}
	read("one", a, b)
	read("two", a)
	if watches() != 2 {
		t.Errorf("%d watches", watches())
	}
	e.reader("one", a)
	if watches() != 1 {
		t.Errorf("%d watches after the gate on a Service went", watches())
	}
	e.Forget(e.owner("one"))
	if watches() != 1 {
		t.Errorf("%d watches though one owner is left", watches())
	}
	e.Refer(e.owner("two"), identity.Operator, nil)
	if watches() != 0 || len(e.index) != 0 || len(e.uses) != 0 || len(e.owners) != 0 {
		t.Errorf("left: %d watches, index %v, uses %v, owners %v", watches(), e.index, e.uses, e.owners)
	}
	// What was read without being named stays for one more round, and goes then.
	r := e.reader("three", a)
	_, _ = r.Object(t.Context(), a)
	_, _ = r.Object(t.Context(), b)
	e.reader("three", a)
	if watches() != 2 {
		t.Errorf("%d watches, though b was read since Refer", watches())
	}
	e.reader("three", a)
	if watches() != 1 {
		t.Errorf("%d watches, though b was not read again", watches())
	}
}

func TestAThousandResourcesAtRestMakeNoRequest(t *testing.T) {
	e := newEnv(t, "")
	e.apply(configMap("config", "a: b"))
	e.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: credentials}\nstringData: {a: b}")
	e.apply("apiVersion: v1\nkind: Service\nmetadata: {name: dep}\nspec: {ports: [{port: 80}]}")
	set := gate.NewSet(gate.Evaluators(gate.Options{Protection: e.Protection()}))
	gates := []v1alpha1.Gate{
		{Name: "config", Type: v1alpha1.GateConfigMapExists, Keys: []string{"a"}},
		{Name: "credentials", Type: v1alpha1.GateSecretExists},
		{Name: "dep", Type: v1alpha1.GateDependencyReady, Ref: &v1alpha1.GateRef{APIVersion: "v1", Kind: "Service"}},
		{Name: "approval", Type: v1alpha1.GateManualApproval},
	}
	const resources = 1000
	evaluate := func() {
		for i := range resources {
			name := fmt.Sprintf("cr-%d", i)
			change := gate.Change{
				GroupVersionKind: v1alpha1.GroupVersion.WithKind("Guestbook"), Namespace: e.namespace, Name: name, Digest: "d",
				Reader: e.For(identity.Operator, e.owner(name)),
			}
			e.Refer(e.owner(name), identity.Operator, set.References(change, gates))
			decisions := set.Evaluate(t.Context(), change, gates)
			for n, d := range decisions {
				if (d.Verdict == gate.Allow) != (n < 3) {
					t.Fatalf("%s: %+v", name, d)
				}
			}
		}
	}
	evaluate()
	before := time.Now()
	evaluate()
	t.Logf("%d evaluations of %d gates took %s", resources, len(gates), time.Since(before))
	if got := e.requests(before); len(got) != 0 {
		t.Errorf("requests %v", got[:min(len(got), 10)])
	}

	// One approval wakes one.
	e.apply(configMap("approval-cr-7", `approved: "true"`))
	e.waitWake("cr-7", 0)
	time.Sleep(200 * time.Millisecond)
	e.mu.Lock()
	defer e.mu.Unlock()
	if diff := cmp.Diff(map[string]int{"cr-7": 1}, e.woken); diff != "" {
		t.Error(diff)
	}
}

func TestApprovalsWakeWhatTheyTarget(t *testing.T) {
	e := newEnv(t, "")
	ref := func(name string) gate.Ref {
		return gate.Ref{GroupVersionKind: releaseApprovals, Namespace: e.namespace, Name: name, Approves: "Guestbook"}
	}
	one, two := e.reader("one", ref("one")), e.reader("two", ref("two"))
	for _, r := range []struct {
		gate.Reader
		gate.Ref
	}{{one, ref("one")}, {two, ref("two")}} {
		if all, err := r.Approvals(t.Context(), r.Ref); err != nil || len(all) != 0 {
			t.Fatalf("approvals %v, %v", all, err)
		}
	}
	e.apply("apiVersion: apps.chartgate.dev/v1alpha1\nkind: ReleaseApproval\nmetadata: {name: a}\nspec: {target: {kind: Guestbook, name: one}, gate: g, approver: admin}")
	e.waitWake("one", 0)
	all, err := one.Approvals(t.Context(), ref("one"))
	if err != nil || len(all) != 1 || all[0].Spec.Decision != v1alpha1.DecisionApprove || all[0].Spec.Target.Group != "apps.chartgate.dev" {
		t.Errorf("approvals %+v, %v", all, err)
	}
	if n := e.wakes("two"); n != 0 {
		t.Errorf("the other was woken %d times", n)
	}
}

func TestWhatIsForbiddenIsReadAndRecovers(t *testing.T) {
	const user = "restricted"
	e := newEnv(t, user)
	subject := rbacv1.Subject{Kind: "User", Name: user}
	ref := e.ref(secrets, "s")
	e.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: b}")
	r := e.reader("one", ref)
	_, err := r.Keys(t.Context(), ref)
	want := &gate.ForbiddenError{User: user, Verb: "get", Resource: "secrets", Namespace: e.namespace}
	var denied *gate.ForbiddenError
	if !errors.As(err, &denied) {
		t.Fatalf("error %v", err)
	}
	if diff := cmp.Diff(want, denied); diff != "" {
		t.Error(diff)
	}

	// Who may get, and not watch, is served by requests.
	e.grant(subject, rule("secrets", "get"))
	e.eventually("the Secret is read", func() error {
		_, err := r.Keys(t.Context(), ref)
		return err
	})
	if e.wakes("one") != 0 {
		t.Error("woken though nothing is watched")
	}
	// The right to watch establishes the watch, unasked.
	e.grant(subject, rule("secrets", "list", "watch"))
	e.waitWake("one", 0)
	_, _ = r.Keys(t.Context(), ref)
	before := time.Now()
	if keys, err := r.Keys(t.Context(), ref); err != nil || len(keys) != 1 {
		t.Errorf("keys %v, %v", keys, err)
	}
	if got := e.requests(before); len(got) != 0 {
		t.Errorf("requests %v", got)
	}
}

func TestTenantsReadWithTheirOwnRights(t *testing.T) {
	e := newEnv(t, "")
	tenant := identity.Identity{Namespace: e.namespace, ServiceAccount: "default"}
	ref := e.ref(configMaps, "config")
	e.apply(configMap("config", "a: b"))
	e.apply(configMap("approval-one", "approved: \"true\""))
	e.Refer(e.owner("one"), tenant, []gate.Ref{ref})
	r := e.For(tenant, e.owner("one"))
	var denied *gate.ForbiddenError
	if _, err := r.Keys(t.Context(), ref); !errors.As(err, &denied) || denied.User != tenant.String() {
		t.Errorf("the tenant reads what it may not: %v", err)
	} else if !strings.Contains(denied.Error(), "--serviceaccount="+e.namespace+":default") {
		t.Errorf("message %s", denied)
	}
	approval := e.ref(configMaps, "approval-one")
	approval.Approves = "Guestbook"
	if _, err := r.Object(t.Context(), approval); err != nil {
		t.Errorf("an approval is not read by the operator: %v", err)
	}
	e.grant(rbacv1.Subject{Kind: "ServiceAccount", Name: "default", Namespace: e.namespace}, rule("configmaps", "get", "list", "watch"))
	e.waitWake("one", 0)
	if keys, err := r.Keys(t.Context(), ref); err != nil || len(keys) != 1 {
		t.Errorf("keys %v, %v", keys, err)
	}
}

func TestTheAPIServerGoesAndComesBack(t *testing.T) {
	e := newEnv(t, "")
	kept, late := e.ref(configMaps, "kept"), e.ref(secrets, "late")
	e.apply(configMap("kept", "a: b"))
	r := e.reader("one", kept, late)
	if _, err := r.Keys(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	if err := e.cluster.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	_, err := r.Keys(t.Context(), late)
	if !errors.Is(err, gate.ErrNotSynced) {
		t.Errorf("while it is down: %v", err)
	}
	if err := e.cluster.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.waitWake("one", 0)
	if _, err := r.Keys(t.Context(), late); !errors.Is(err, gate.ErrNotFound) {
		t.Errorf("after it came back: %v", err)
	}
	woken := e.wakes("one")
	e.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: late}\nstringData: {a: b}")
	e.waitWake("one", woken)
	if _, err := r.Keys(t.Context(), late); err != nil {
		t.Error(err)
	}
}
