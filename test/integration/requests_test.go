// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/harness"
)

// requests returns the operator's requests in the test's namespace since then, watches and events apart.
func requests(t *testing.T, e *harness.Env, since time.Time, filters ...controlplane.AuditFilter) []string {
	t.Helper()
	events, err := e.Cluster.AuditEvents(e.Ctx, append(filters,
		controlplane.ByUserAgent("chartgate"), controlplane.ByNamespace(e.Namespace), controlplane.Since(since))...)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, ev := range events {
		if ev.Verb == "watch" || ev.ObjectRef.Resource == "events" {
			continue
		}
		what := ev.ObjectRef.Resource
		if ev.ObjectRef.Subresource != "" {
			what += "/" + ev.ObjectRef.Subresource
		}
		out = append(out, ev.Verb+" "+what+" "+ev.ObjectRef.Name)
	}
	return out
}

// listsOfSecrets returns the URIs of the operator's lists of Secrets in the test's namespace since then.
func listsOfSecrets(t *testing.T, e *harness.Env, since time.Time) []string {
	t.Helper()
	events, err := e.Cluster.AuditEvents(e.Ctx, controlplane.ByUserAgent("chartgate"), controlplane.ByNamespace(e.Namespace),
		controlplane.ByVerb("list"), controlplane.ByResource("secrets"), controlplane.Since(since))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, ev := range events {
		out = append(out, ev.RequestURI)
	}
	return out
}

// ofOneRelease tells a list of one release's Secrets, which a driver makes when
// no watch tells it of them, from a list that starts a watch: client-go makes
// one when the API server fails to stream what there is.
func ofOneRelease(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && strings.Contains(","+u.Query().Get("labelSelector"), ",name=")
}

func writes() controlplane.AuditFilter {
	return controlplane.ByVerb("create", "update", "patch", "delete", "deletecollection")
}

// reconciles returns how many reconciles of the kind have ended well so far.
func reconciles(t *testing.T, k *harness.Kind) int {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, f := range families {
		if f.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "controller" && strings.HasPrefix(l.GetValue(), strings.ToLower(k.Kind)+".") {
					total += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return total
}

func TestInstallWritesWhatIsNeededAndNoMore(t *testing.T) {
	e := sideBySide(t)
	k := e.OpenKind(e.Chart("three", map[string]string{"templates/all.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: "{{ .Release.Name }}"}
---
apiVersion: v1
kind: Service
metadata: {name: "{{ .Release.Name }}"}
spec: {selector: {app: none}, ports: [{port: 80}]}
`}))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("warm", nil) // watches of the kinds stand from here on
	k.WaitReady("warm")
	since := time.Now()
	k.Create("one", nil)
	k.WaitReady("one")
	const objects = 3
	all := requests(t, e, since)
	if got := requests(t, e, since, writes()); len(got) > objects+5 {
		t.Errorf("%d writes for %d objects:\n%s", len(got), objects, strings.Join(got, "\n"))
	}
	if reads := len(all) - len(requests(t, e, since, writes())); reads > 0 {
		t.Errorf("%d reads to install what nothing was in the way of:\n%s", reads, strings.Join(all, "\n"))
	}
}

func TestUpgradeTouchesOnlyWhatChanges(t *testing.T) {
	e := sideBySide(t)
	k := e.OpenKind(e.Chart("small", smallChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{"replicas": int64(0)})
	k.WaitReady("one")
	since := time.Now()
	k.Patch("one", `{"spec":{"message":"other"}}`)
	k.WaitReady("one")
	for _, r := range requests(t, e, since) {
		if strings.Contains(r, "services") || strings.Contains(r, "deployments") || strings.HasPrefix(r, "get ") || strings.HasPrefix(r, "list ") {
			t.Errorf("a change of the ConfigMap made request %s", r)
		}
	}
	e.WantHistory("one", "1:superseded 2:deployed")
}

func TestIdleResourcesMakeNoRequests(t *testing.T) {
	const n = 100
	e := sideBySide(t)
	k := e.OpenKind(e.Chart("one", configChart))
	m := e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1s"}})
	for i := range n {
		k.Create(fmt.Sprintf("n%d", i), nil)
	}
	ready := func() {
		for i := range n {
			k.WaitReady(fmt.Sprintf("n%d", i))
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
	ready()
	resync()
	since := time.Now()
	resync()
	if got := requests(t, e, since); len(got) > 0 {
		t.Errorf("%d requests of %d idle resources:\n%s", len(got), n, strings.Join(got[:min(len(got), 10)], "\n"))
	}

	// A restarted operator reads what it has to know once, and lists no Secrets but to start its watch.
	m.Stop()
	since = time.Now()
	m.Start()
	e.Eventually("the operator is up", func() error {
		if len(requests(t, e, since)) == 0 {
			return errors.New("no request yet")
		}
		return nil
	})
	resync()
	started := time.Now()
	resync()
	if got := requests(t, e, started); len(got) > 0 {
		t.Errorf("%d requests after the restart:\n%s", len(got), strings.Join(got[:min(len(got), 10)], "\n"))
	}
	lists := listsOfSecrets(t, e, since)
	if len(lists) > 1 || len(lists) == 1 && ofOneRelease(lists[0]) {
		t.Errorf("%d lists of Secrets after the restart:\n%s", len(lists), strings.Join(lists[:min(len(lists), 10)], "\n"))
	}
	if got := requests(t, e, since, writes()); len(got) > 0 {
		t.Errorf("a restart writes:\n%s", strings.Join(got, "\n"))
	}
}
