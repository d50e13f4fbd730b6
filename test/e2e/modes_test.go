// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/test/controlplane/olm"
)

// TestInstallModes installs the operator for its own namespace, for one other
// and for several, all at once: each works there, holds no rights elsewhere, and
// leaves what is elsewhere alone. TestSubscription has the mode for all namespaces.
func TestInstallModes(t *testing.T) {
	t.Parallel() // after the operators for all namespaces, which OLM has no others beside
	start := time.Now()
	modes := map[string]struct {
		operator string
		targets  []string
	}{
		"OwnNamespace":    {"mode-own", []string{"mode-own"}},
		"SingleNamespace": {"mode-single", []string{"mode-single-target"}},
		"MultiNamespace":  {"mode-multi", []string{"mode-multi-one", "mode-multi-two"}},
	}
	foreign := guestbook{makeNamespace(t, "mode-foreign"), "shop"}
	operators := map[string]operator{}
	for name, mode := range modes {
		for _, target := range mode.targets {
			if target != mode.operator {
				makeNamespace(t, target)
			}
		}
		operators[name] = subscribe(t, mode.operator, olm.Subscription{}, mode.targets...)
	}
	for _, o := range operators {
		o.waitInstalled(t)
	}
	kubectl(t, workload(t, foreign, ""), "apply", "-f", "-")
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			o := operators[name]
			for _, target := range mode.targets {
				g := guestbook{target, "shop"}
				g.heldAndRepaired(t)
			}
			// By now the operator has handled resources that were made later.
			obj, err := foreign.read(t.Context())
			must(t, err)
			if obj.Object["status"] != nil || len(obj.GetFinalizers()) > 0 {
				t.Errorf("the Guestbook in a namespace that is not the operator's was touched: status %v, finalizers %v", obj.Object["status"], obj.GetFinalizers())
			}
			if left := releases(t.Context(), t, foreign.namespace); len(left) > 0 {
				t.Errorf("releases in a namespace that is not the operator's: %v", left)
			}
			if rights := o.rightsIn(t, mode.targets[0]); len(rights) == 0 {
				t.Error("no rights where it works: the checks below can't fail")
			}
			for other := range modes {
				for _, namespace := range append([]string{foreign.namespace}, modes[other].targets...) {
					if namespace == mode.operator || slices.Contains(mode.targets, namespace) {
						continue
					}
					if rights := o.rightsIn(t, namespace); len(rights) > 0 {
						t.Errorf("rights in namespace %s, which is not the operator's: %v", namespace, rights)
					}
				}
			}
			noForbidden(t, o, start)
		})
	}
}

// heldAndRepaired takes a Guestbook through a gate and a repair.
func (g guestbook) heldAndRepaired(t *testing.T) {
	t.Helper()
	kubectl(t, workload(t, g, "  gates: [{name: settings, type: ConfigMapExists}]\n"), "apply", "-f", "-")
	g.waitFor(t, "is held", func(obj *unstructured.Unstructured) error {
		return g.condition(obj, "AllGatesPassed", "False", "")
	})
	if made := releases(t.Context(), t, g.namespace); len(made) > 0 {
		t.Errorf("released while held: %v", made)
	}
	kubectl(t, "", "create", "configmap", "settings", "-n", g.namespace)
	g.waitReady(t)
	var service corev1.Service
	must(t, env.client.Get(t.Context(), client.ObjectKey{Namespace: g.namespace, Name: g.name}, &service))
	kubectl(t, "", "delete", "service", g.name, "-n", g.namespace)
	eventually(t, "the Service is back", func(ctx context.Context) error {
		var again corev1.Service
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(&service), &again); err != nil {
			return err
		}
		if again.UID == service.UID {
			return fmt.Errorf("it is not deleted yet")
		}
		return nil
	})
	kubectl(t, "", "delete", "guestbook", g.name, "-n", g.namespace, "--timeout=2m")
}
