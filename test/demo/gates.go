// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// gatedName is the Guestbook with gates, whose dependency is the sample.
const gatedName = "shop"

// gatedManifest takes the name of what it depends on. Only a watch can open its gates
// within the demo: the polls come once an hour.
const gatedManifest = `apiVersion: apps.chartgate.dev/v1alpha1
kind: Guestbook
metadata:
  name: ` + gatedName + `
spec:
  replicaCount: 1
  gates:
  - name: ` + gatedName + `-settings
    type: ConfigMapExists
    checkInterval: 3600
  - name: %s
    type: DependencyReady
    checkInterval: 3600
  - name: sign-off
    type: ManualApproval
    checkInterval: 3600
`

func (d *demo) applyGated(ctx context.Context) error {
	file := filepath.Join(d.dir, gatedName+".yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, gatedManifest, d.sample), 0o600); err != nil {
		return err
	}
	for _, command := range []string{
		"sed -n '/^spec:/,$p' " + file,
		"kubectl apply -f " + file,
	} {
		if _, err := d.show(ctx, command); err != nil {
			return err
		}
	}
	if err := d.waitGates(ctx, "0/3"); err != nil {
		return err
	}
	for _, command := range []string{
		"kubectl get guestbook",
		"kubectl get guestbook " + gatedName + ` -o jsonpath='{range .status.gates[*]}{.name}{"\t"}{.verdict}{"\t"}{.reason}{"\n"}{end}'`,
		"helm list --all",
	} {
		if _, err := d.show(ctx, command); err != nil {
			return err
		}
	}
	return d.checkHeld(ctx)
}

func (d *demo) openSettings(ctx context.Context) error {
	if _, err := d.show(ctx, "kubectl create configmap "+gatedName+"-settings --from-literal=currency=EUR"); err != nil {
		return err
	}
	if err := d.waitGates(ctx, "1/3"); err != nil {
		return err
	}
	if _, err := d.show(ctx, "kubectl get guestbook"); err != nil {
		return err
	}
	return d.checkHeld(ctx)
}

func (d *demo) openDependency(ctx context.Context) error {
	for _, command := range []string{
		"kubectl apply -f " + sampleFile,
		"kubectl wait --for=condition=Ready --timeout=120s guestbook/" + d.sample,
	} {
		if _, err := d.show(ctx, command); err != nil {
			return err
		}
	}
	if err := d.waitGates(ctx, "2/3"); err != nil {
		return err
	}
	if _, err := d.show(ctx, "kubectl get guestbook"); err != nil {
		return err
	}
	return d.checkHeld(ctx)
}

func (d *demo) approve(ctx context.Context) error {
	planned, err := d.show(ctx, "kubectl get configmap guestbook-"+gatedName+"-plan -o jsonpath='{.data.summary}{\"\\n\"}'")
	if err != nil {
		return err
	}
	if !strings.Contains(planned, "added") {
		return fmt.Errorf("the plan says %q", planned)
	}
	start := time.Now()
	for _, command := range []string{
		"kubectl create configmap approval-" + gatedName + " --from-literal=approved=true",
		"kubectl wait --for=jsonpath='{.status.revision}'=1 --timeout=60s guestbook/" + gatedName,
	} {
		if _, err := d.show(ctx, command); err != nil {
			return err
		}
	}
	d.good("the release followed the approval within %s, kubectl's own time included", time.Since(start).Round(10*time.Millisecond))
	for _, command := range []string{
		"kubectl wait --for=condition=Ready --timeout=120s guestbook/" + gatedName,
		"kubectl get guestbook",
		"kubectl events --for guestbook/" + gatedName,
		"helm list",
	} {
		if _, err := d.show(ctx, command); err != nil {
			return err
		}
	}
	var g guestbook
	if err := d.askJSON(ctx, "kubectl get guestbook "+gatedName+" -o json", &g); err != nil {
		return err
	}
	if len(g.Status.Approvals) != 1 || g.Status.Approvals[0].Digest != g.Status.AppliedDigest {
		return fmt.Errorf("approvals on record: %+v", g.Status.Approvals)
	}
	left, err := d.ask(ctx, "kubectl get configmap --ignore-not-found -o name guestbook-"+gatedName+"-plan")
	if err != nil {
		return err
	}
	if strings.TrimSpace(left) != "" {
		return errors.New("the plan is still there")
	}
	d.good("the approval is on record, and the plan is gone")
	return g.releasedAt(1)
}

func (d *demo) deleteGated(ctx context.Context) error {
	for _, command := range []string{
		fmt.Sprintf("kubectl delete guestbook --timeout=120s %s %s", gatedName, d.sample),
		fmt.Sprintf("kubectl delete configmap %[1]s-settings approval-%[1]s", gatedName),
		"helm list --all",
	} {
		if _, err := d.show(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

// waitGates waits until so many of the gates passed.
func (d *demo) waitGates(ctx context.Context, passed string) error {
	took, err := eventually(ctx, passed+" gates", func(ctx context.Context) error {
		got, err := d.ask(ctx, "kubectl get guestbook "+gatedName+" -o jsonpath='{.status.gatesPassed}'")
		if err == nil && strings.TrimSpace(got) != passed {
			err = fmt.Errorf("%s gates passed", got)
		}
		return err
	})
	if err == nil {
		d.good("%s gates passed after %s", passed, took)
	}
	return err
}

// checkHeld checks that nothing of the Guestbook with gates is released.
func (d *demo) checkHeld(ctx context.Context) error {
	var g guestbook
	if err := d.askJSON(ctx, "kubectl get guestbook "+gatedName+" -o json", &g); err != nil {
		return err
	}
	if g.Status.Phase != v1alpha1.PhasePending || !meta.IsStatusConditionFalse(g.Status.Conditions, v1alpha1.ConditionAllGatesPassed) {
		return fmt.Errorf("it is not held: %s, %s", g.Status.Phase, g.Status.Message)
	}
	left, err := d.ask(ctx, "kubectl get secrets -o name -l owner=helm,name="+gatedName)
	if err != nil {
		return err
	}
	if strings.TrimSpace(left) != "" {
		return fmt.Errorf("there is a release already: %s", left)
	}
	return nil
}
