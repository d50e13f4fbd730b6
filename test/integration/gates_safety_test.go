// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/harness"
)

// accountChart makes a ServiceAccount, and no ConfigMap.
var accountChart = map[string]string{
	"values.yaml":       "message: hello\n",
	"templates/sa.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: \"{{ .Release.Name }}\", annotations: {message: {{ .Values.message | quote }}}}\n",
}

func TestGateThatMayNotBeReadNamesTheMissingRule(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("account", accountChart))
	user := harness.Name("limited-")
	cfg, err := e.Cluster.User(user)
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"*"}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{k.Group}, Resources: all, Verbs: all},
		{APIGroups: []string{""}, Resources: []string{"secrets", "serviceaccounts", "events", "namespaces"}, Verbs: all},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: []rbacv1.Subject{{Kind: "User", Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
	}
	for _, obj := range []client.Object{role, binding} {
		if err := e.Client.Create(e.Ctx, obj); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Client.Delete(e.Ctx, obj) })
	}
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches, Config: cfg})
	createConfigMap(e, "settings", nil) // it is there, but the operator can't know
	k.Create("one", gated("first", gateOf("settings", v1alpha1.GateConfigMapExists, nil)))
	g := waitGate(k, "one", "settings", v1alpha1.VerdictUnknown, gate.ReasonForbidden)
	waitHeld(k, "one")
	e.WantHistory("one", "")
	_, command, found := strings.Cut(g.Message, "grant it: ")
	if !found || !strings.Contains(g.Message, user) || strings.Contains(g.Message, "does not exist") {
		t.Fatalf("message: %s", g.Message)
	}
	for part := range strings.SplitSeq(command, " && ") {
		e.Kubectl(strings.Fields(part)[1:]...)
	}
	k.WaitReady("one")
}

func TestGateThatCanNotBeReadHolds(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("account", accountChart))
	proxy := e.StartProxy()
	proxy.OnRequest(func(r harness.Request) harness.Action {
		if r.Resource == "configmaps" {
			return harness.Answer(http.StatusInternalServerError)
		}
		return harness.Forward()
	})
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches, Config: proxy.Config()})
	createConfigMap(e, "settings", nil)
	k.Create("one", gated("first", gateOf("settings", v1alpha1.GateConfigMapExists, nil)))
	waitGate(k, "one", "settings", v1alpha1.VerdictUnknown, gate.ReasonNotSynced)
	waitHeld(k, "one")
	e.WantHistory("one", "")
	proxy.OnRequest(nil)
	k.WaitReady("one")
}

// An edit that comes after the gates were asked and before anything is released
// is not released with what they let through.
func TestEditBetweenGateCheckAndReleaseIsNotReleased(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	proxy := e.StartProxy()
	var once sync.Once
	proxy.OnWrite(func(r harness.Request) harness.Action {
		// The first write after the gates let the change through tells that it is being released.
		if r.Subresource == "status" {
			once.Do(func() {
				deleteConfigMap(e, "settings")
				k.Patch("one", `{"spec":{"message":"ungated"}}`)
			})
		}
		return harness.Forward()
	})
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches, Config: proxy.Config()})
	createConfigMap(e, "settings", nil)
	k.Create("one", gated("gated", gateOf("settings", v1alpha1.GateConfigMapExists, nil)))
	waitHistory(e, "one", "1:deployed")
	message(t, e, "one", "gated")
	st := waitHeld(k, "one")
	if obj, _ := k.Get("one"); obj.GetGeneration() != 2 || st.Revision != 1 || st.Pending == nil {
		t.Errorf("generation %d, status %+v", obj.GetGeneration(), st)
	}
	e.Never("the edit is not released", 2*time.Second, func() error {
		if got := data(e.Object("v1", "ConfigMap", "one"), "message"); got != "gated" || e.Statuses("one") != "1:deployed" {
			return fmt.Errorf("message %q, history %s", got, e.Statuses("one"))
		}
		return nil
	})
	createConfigMap(e, "settings", nil)
	message(t, e, "one", "ungated")
}

func TestGateNeverHoldsADeletion(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	approval := gateOf("release", v1alpha1.GateManualApproval, nil)
	k.Create("new", gated("first", approval))
	waitHeld(k, "new")
	k.Delete("new")
	e.WantHistory("new", "")
	e.WaitObjectGone("v1", "ConfigMap", planName(k, "new"))

	k.Create("old", map[string]any{"message": "first"})
	k.WaitReady("old")
	k.Patch("old", `{"spec":{"message":"second","gates":[{"name":"release","type":"ManualApproval"}]}}`)
	waitHeld(k, "old")
	k.Delete("old")
	e.WantHistory("old", "")
	e.WaitObjectGone("v1", "ConfigMap", "old")
	e.WaitObjectGone("v1", "ConfigMap", planName(k, "old"))
}

func TestGatesAtRestMakeNoRequests(t *testing.T) {
	const n, watched = 100, 7
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1s"}})
	createConfigMap(e, "common", nil)
	name := func(i int) string { return fmt.Sprintf("n%d", i) }
	gates := func(i int) []map[string]any {
		own := "common"
		if i < watched {
			own = "special"
		}
		return []map[string]any{
			gateOf("settings", v1alpha1.GateConfigMapExists, map[string]any{"ref": map[string]any{"name": own}}),
			gateOf("rule", v1alpha1.GateExpression, map[string]any{"ref": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "common"}, "expression": "object != null"}),
			gateOf("release", v1alpha1.GateManualApproval, map[string]any{"mandatory": i >= n-watched}),
		}
	}
	for i := range n {
		k.Create(name(i), gated("x", gates(i)...))
	}
	held := func(i int) bool { return i < watched || i >= n-watched }
	for i := range n {
		if held(i) {
			waitHeld(k, name(i))
		} else {
			k.WaitReady(name(i))
		}
	}
	resync := func() {
		start := reconciles(t, k)
		e.Eventually("a resync of all", func() error {
			if got := reconciles(t, k); got < start+2*n {
				return fmt.Errorf("%d reconciles since %d", got, start)
			}
			return nil
		})
	}
	resync()
	since := time.Now()
	resync()
	if got := requests(t, e, since); len(got) > 0 {
		t.Errorf("%d requests of %d resources at rest:\n%s", len(got), n, strings.Join(got[:min(len(got), 10)], "\n"))
	}

	since = time.Now()
	createConfigMap(e, "special", nil)
	for i := range watched {
		k.WaitReady(name(i))
	}
	for _, w := range requests(t, e, since, writes(), controlplane.ByResource(k.Resource(), k.Resource()+"/status")) {
		var i int
		if _, err := fmt.Sscanf(w[strings.LastIndex(w, " ")+1:], "n%d", &i); err != nil || i >= watched {
			t.Errorf("a ConfigMap that only n0 to n%d look at led to: %s", watched-1, w)
		}
	}
}

func TestGateEventWakesOnlyItsReferrers(t *testing.T) {
	const n = 100
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("one", configChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	for i := range n {
		k.Create(fmt.Sprintf("n%d", i), gated("x", gateOf(fmt.Sprintf("settings%d", i), v1alpha1.GateConfigMapExists, nil)))
	}
	for i := range n {
		waitHeld(k, fmt.Sprintf("n%d", i))
	}
	quiet := func() int {
		last := reconciles(t, k)
		for {
			time.Sleep(time.Second)
			now := reconciles(t, k)
			if now == last {
				return now
			}
			last = now
		}
	}
	before := quiet()
	createConfigMap(e, "nobodys", nil)
	if got := quiet() - before; got != 0 {
		t.Errorf("a ConfigMap that no gate looks at woke %d resources", got)
	}
	before = quiet()
	createConfigMap(e, "settings7", nil)
	k.WaitReady("n7")
	if got := quiet() - before; got < 1 || got > 6 { // the release itself wakes its resource as well
		t.Errorf("%d reconciles after the ConfigMap of one of %d resources came", got, n)
	}
	if _, st := k.Get("n8"); st.GatesPassed != "0/1" {
		t.Error(errors.New("another's gate opened"))
	}
}
