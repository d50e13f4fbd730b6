// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// A guestbook is what the demo reads of one.
type guestbook struct {
	Metadata struct {
		Name       string `json:"name"`
		Generation int64  `json:"generation"`
	} `json:"metadata"`
	Spec   map[string]any        `json:"spec"`
	Status v1alpha1.CommonStatus `json:"status"`
}

func (d *demo) guestbook(ctx context.Context) (*guestbook, error) {
	var g guestbook
	return &g, d.askJSON(ctx, "kubectl get guestbook "+d.sample+" -o json", &g)
}

// releasedAt checks that the spec as it is now is released, at a revision.
func (g *guestbook) releasedAt(revision int64) error {
	s := g.Status
	switch {
	case !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady):
		return fmt.Errorf("%s is not Ready: %s", g.Metadata.Name, s.Message)
	case s.ObservedGeneration != g.Metadata.Generation:
		return fmt.Errorf("status.observedGeneration is %d, the spec is at %d", s.ObservedGeneration, g.Metadata.Generation)
	case s.Revision != revision:
		return fmt.Errorf("status.revision is %d, want %d", s.Revision, revision)
	default:
		return nil
	}
}

// checkStatusIsSmall checks that the status holds no manifest.
func (d *demo) checkStatusIsSmall(ctx context.Context) error {
	status, err := d.ask(ctx, "kubectl get guestbook "+d.sample+" -o jsonpath='{.status}'")
	if err != nil {
		return err
	}
	if len(status) > 16<<10 || strings.Contains(status, "apiVersion:") {
		return fmt.Errorf("the status holds a manifest, or is too large (%d bytes)", len(status))
	}
	d.good("its status has %d bytes, and no manifest in it", len(status))
	return nil
}

func (d *demo) checkListed(ctx context.Context) error {
	var releases []struct{ Name, Status string }
	if err := d.askJSON(ctx, "helm list -o json", &releases); err != nil {
		return err
	}
	if len(releases) != 1 || releases[0].Name != d.sample || releases[0].Status != "deployed" {
		return fmt.Errorf("helm list shows %v, want %s, deployed, alone", releases, d.sample)
	}
	return nil
}

// checkHistory checks the statuses of all revisions, oldest first.
func (d *demo) checkHistory(ctx context.Context, want ...string) error {
	var revisions []struct{ Status string }
	if err := d.askJSON(ctx, "helm history "+d.sample+" -o json", &revisions); err != nil {
		return err
	}
	var got []string
	for _, r := range revisions {
		got = append(got, r.Status)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("helm history shows revisions %v, want %v", got, want)
	}
	d.good("helm history shows %d revisions, the newest %s", len(got), got[len(got)-1])
	return nil
}

// checkValues checks that the release's values are the spec without the reserved fields.
func (d *demo) checkValues(ctx context.Context) error {
	current, err := d.guestbook(ctx)
	if err != nil {
		return err
	}
	var values map[string]any
	if err := d.askJSON(ctx, "helm get values "+d.sample+" -o json", &values); err != nil {
		return err
	}
	for _, reserved := range []string{v1alpha1.GatesField, v1alpha1.ReleaseField} {
		if _, ok := values[reserved]; ok {
			return fmt.Errorf("helm get values shows Chartgate's own field %s", reserved)
		}
		delete(current.Spec, reserved)
	}
	if !reflect.DeepEqual(current.Spec, values) {
		return fmt.Errorf("helm get values differs from the spec:\nspec:   %v\nvalues: %v", current.Spec, values)
	}
	return nil
}

func (d *demo) checkReplicas(ctx context.Context, want int) error {
	var deployment struct {
		Status struct{ ReadyReplicas int }
	}
	if err := d.askJSON(ctx, "kubectl get deployment "+d.sample+" -o json", &deployment); err != nil {
		return err
	}
	if got := deployment.Status.ReadyReplicas; got != want {
		return fmt.Errorf("the Deployment %s has %d ready replicas, want %d", d.sample, got, want)
	}
	d.good("the frontend runs %d replicas", want)
	return nil
}

// checkNothingLeft checks that a deleted resource's objects, what those made, and its release are gone.
func (d *demo) checkNothingLeft(ctx context.Context, manifest string) error {
	for what, command := range map[string]string{
		"released objects": "kubectl get --ignore-not-found -o name -f " + manifest,
		"release Secrets":  "kubectl get secrets -o name -l owner=helm",
		"pods and others":  "kubectl get all,configmaps,secrets,persistentvolumeclaims,ingresses -o name -l app.kubernetes.io/instance=" + d.sample,
		"Guestbooks":       "kubectl get guestbooks -o name",
	} {
		left, err := d.ask(ctx, command)
		if err != nil {
			return err
		}
		if left = strings.TrimSpace(left); left != "" {
			return fmt.Errorf("%s are left: %s", what, strings.Join(strings.Fields(left), ", "))
		}
	}
	return nil
}

func (d *demo) askJSON(ctx context.Context, command string, into any) error {
	out, err := d.ask(ctx, command)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("read what %q prints: %w", command, err)
	}
	return nil
}

// eventually waits until a check holds, and returns how long that took.
func eventually(ctx context.Context, what string, check func(context.Context) error) (time.Duration, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("it took too long"))
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return time.Since(start).Round(10 * time.Millisecond), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for %s: %w; last: %w", what, context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
