// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/test/controlplane/olm"
)

// TestSubscription is the way most people take: subscribe, apply a sample, use
// it, ask helm about it, delete it.
func TestSubscription(t *testing.T) {
	start := time.Now()
	o := subscribe(t, "chartgate-system", olm.Subscription{})
	csv := o.waitInstalled(t)
	if csv != env.catalogs.current.csv {
		t.Fatalf("installed %s, want %s", csv, env.catalogs.current.csv)
	}
	_, err := env.olm.WaitPackage(limited(t), o.namespace, packageName)
	must(t, err)

	g := guestbook{makeNamespace(t, "team-a"), "shop"}
	kubectl(t, workload(t, g, ""), "apply", "-f", "-")
	g.waitRunning(t)
	if body := fetch(t, g.namespace, "http://"+g.name); body == "" {
		t.Error("the Service answered nothing")
	}
	history := helm(t, "history", g.name, "-n", g.namespace)
	if !strings.Contains(history, "deployed") || strings.Count(history, "\n") != 2 {
		t.Errorf("helm history:\n%s", history)
	}

	t.Run("a change follows", func(t *testing.T) {
		kubectl(t, "", "patch", "guestbook", g.name, "-n", g.namespace, "--type=merge", "-p", `{"spec":{"replicaCount":3}}`)
		if got := revision(g.waitReady(t)); got != 2 {
			t.Errorf("revision %d, want 2", got)
		}
	})
	t.Run("a deleted Service is back", func(t *testing.T) {
		kubectl(t, "", "delete", "service", g.name, "-n", g.namespace)
		eventually(t, "the Service is back", func(ctx context.Context) error {
			return env.client.Get(ctx, client.ObjectKey{Namespace: g.namespace, Name: g.name}, &corev1.Service{})
		})
	})
	t.Run("deleted, it leaves nothing", func(t *testing.T) {
		kubectl(t, "", "delete", "guestbook", g.name, "-n", g.namespace, "--timeout=2m")
		eventually(t, "nothing of the release is left", func(ctx context.Context) error {
			if left := releases(ctx, t, g.namespace); len(left) > 0 {
				return fmt.Errorf("release Secrets: %v", left)
			}
			return gone(ctx, &appsv1.Deployment{}, g.namespace, g.name)
		})
	})
	t.Run("side by side", func(t *testing.T) {
		for name, story := range map[string]func(*testing.T){
			"a Database keeps its rows":       func(t *testing.T) { databaseKeepsItsRows(t, o) },
			"a Database grows and stays":      databaseGrowsAndStays,
			"a WebApp answers":                webAppAnswers,
			"a team's charts act as the team": teamsActAsThemselves,
			"approvals are vouched for":       approvalsAreVouchedFor,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel() // in namespaces of its own
				story(t)
			})
		}
	})
	noForbidden(t, o, start)
}

// TestUpgrade goes from a version that was released before to this one, with
// InstallPlans that a person approves, and takes the operator away and back.
func TestUpgrade(t *testing.T) {
	start := time.Now()
	previous, current := env.catalogs.previous.csv, env.catalogs.current.csv
	o := subscribe(t, "chartgate-system", olm.Subscription{Approval: olm.Manual, StartingCSV: previous})
	plan, err := env.olm.WaitInstallPlan(limited(t), o.namespace, previous)
	must(t, err)
	must(t, gone(t.Context(), &appsv1.Deployment{}, o.namespace, deploymentName)) // nothing before the approval
	must(t, env.olm.Approve(t.Context(), o.namespace, plan))
	must(t, env.olm.WaitCSV(limited(t), o.namespace, previous, "Succeeded"))

	g := guestbook{makeNamespace(t, "team-b"), "shop"}
	kubectl(t, workload(t, g, ""), "apply", "-f", "-")
	g.waitRunning(t)
	podsBefore, releasesBefore, leaderBefore := pods(t, g.namespace), releases(t.Context(), t, g.namespace), o.leader(t.Context(), t)

	plan, err = env.olm.WaitInstallPlan(limited(t), o.namespace, current)
	must(t, err)
	must(t, env.olm.Approve(t.Context(), o.namespace, plan))
	must(t, env.olm.WaitCSV(limited(t), o.namespace, current, "Succeeded"))
	eventually(t, "leadership moves over", func(ctx context.Context) error {
		if l := o.leader(ctx, t); l == "" || l == leaderBefore {
			return fmt.Errorf("the leader is %q", l)
		}
		return nil
	})
	g.touched(t) // the new version has looked at it
	unchanged(t, "by the operator's upgrade", podsBefore, pods(t, g.namespace))
	unchanged(t, "by the operator's upgrade", releasesBefore, releases(t.Context(), t, g.namespace))

	noForbidden(t, o, start)

	// Away: the workload does not notice.
	must(t, env.olm.Remove(limited(t), o.namespace, packageName))
	kubectl(t, "", "patch", "guestbook", g.name, "-n", g.namespace, "--type=merge", "-p", `{"spec":{"replicaCount":3}}`)
	unchanged(t, "without the operator", podsBefore, pods(t, g.namespace))
	if body := fetch(t, g.namespace, "http://"+g.name); body == "" {
		t.Error("the Service answers nothing without the operator")
	}

	// OLM takes an operator's rights away before its pod ends: what was refused meanwhile is no fault.
	start = time.Now()

	// And back: what was asked for meanwhile follows, as the next revision.
	must(t, env.olm.OperatorGroup(t.Context(), o.namespace))
	o.subscribe(t, olm.Subscription{})
	o.waitInstalled(t)
	g.waitFor(t, "is at revision 2", func(obj *unstructured.Unstructured) error {
		if got := revision(obj); got != 2 {
			return fmt.Errorf("revision %d", got)
		}
		return g.condition(obj, "Ready", "True", "")
	})
	kubectl(t, "", "delete", "guestbook", g.name, "-n", g.namespace, "--timeout=2m")
	noForbidden(t, o, start)
}

// touched waits until the operator that leads now has handled the resource.
func (g guestbook) touched(t *testing.T) {
	t.Helper()
	const stamp = "after-the-upgrade"
	kubectl(t, "", "annotate", "--overwrite", "guestbook", g.name, "-n", g.namespace, "chartgate.dev/reconcile-at="+stamp)
	g.waitFor(t, "was looked at", func(obj *unstructured.Unstructured) error {
		if got, _, _ := unstructured.NestedString(obj.Object, "status", "lastHandledReconcileAt"); got != stamp {
			return errNotYet
		}
		return nil
	})
}

func unchanged(t *testing.T, what string, before, after map[string]string) {
	t.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("changed %s (-before +after):\n%s", what, diff)
	}
}

// makeNamespace makes a namespace that is deleted when the test ends.
func makeNamespace(t *testing.T, name string) string {
	t.Helper()
	must(t, env.olm.Namespace(t.Context(), name, nil))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		if _, err := tryKubectl(ctx, "", "delete", "namespace", name, "--ignore-not-found"); err != nil {
			t.Error(err)
		}
	})
	return name
}
