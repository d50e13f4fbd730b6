// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// approvalsAreVouchedFor approves a change where OLM installed the operator:
// the webhook of its bundle, with certificates that OLM made, refuses who gives
// another's name or may not approve, and the gate trusts what it let through.
func approvalsAreVouchedFor(t *testing.T) {
	g := guestbook{makeNamespace(t, "team-approved"), "shop"}
	kubectl(t, workload(t, g, "  gates: [{name: release, type: ManualApproval, accept: [ReleaseApproval]}]\n"), "apply", "-f", "-")
	held := g.waitFor(t, "waits for an approval", func(obj *unstructured.Unstructured) error {
		return g.condition(obj, "release", "False", "ApprovalPending")
	})
	if plan, _, _ := unstructured.NestedString(held.Object, "status", "pending", "plan"); plan == "" {
		t.Error("the status names no plan")
	}

	// Eve may write approvals, and may not approve.
	kubectl(t, "", "create", "role", "writer", "-n", g.namespace, "--verb=create", "--resource=releaseapprovals.apps.chartgate.dev")
	kubectl(t, "", "create", "rolebinding", "writer", "-n", g.namespace, "--role=writer", "--user=eve", "--user=anna")
	kubectl(t, "", "create", "role", "approver", "-n", g.namespace, "--verb=approve", "--resource=guestbooks.apps.chartgate.dev")
	kubectl(t, "", "create", "rolebinding", "approver", "-n", g.namespace, "--role=approver", "--user=anna")
	for user, approver := range map[string]string{"eve": "eve", "anna": "eve"} {
		out, err := tryKubectl(t.Context(), approval(g, approver), "create", "-f", "-", "--as="+user)
		if err == nil {
			t.Errorf("%s approved in the name of %s: %s", user, approver, out)
		} else if !strings.Contains(err.Error(), "approve") || !strings.Contains(err.Error(), "denied") {
			t.Errorf("%s in the name of %s: %v", user, approver, err)
		}
	}
	if made := releases(t.Context(), t, g.namespace); len(made) > 0 {
		t.Errorf("released without an approval: %v", made)
	}
	kubectl(t, approval(g, "anna"), "create", "-f", "-", "--as=anna")
	obj := g.waitReady(t)
	approvals, _, _ := unstructured.NestedSlice(obj.Object, "status", "approvals")
	if len(approvals) != 1 || approvals[0].(map[string]any)["approver"] != "anna" {
		t.Errorf("status.approvals: %v", approvals)
	}
	kubectl(t, "", "delete", "guestbook", g.name, "-n", g.namespace, "--timeout=2m") // before its namespace, in which nothing can be made then
}

func approval(g guestbook, approver string) string {
	return fmt.Sprintf(`
apiVersion: apps.chartgate.dev/v1alpha1
kind: ReleaseApproval
metadata: {generateName: yes-, namespace: %s}
spec: {target: {kind: Guestbook, name: %s}, approver: %s}
`, g.namespace, g.name, approver)
}
