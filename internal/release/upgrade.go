// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"slices"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/release/store"
)

// Upgrade implements ActionInterface. The plugin's dry run, by which it decides
// whether to upgrade, is answered from the digest: without rendering where the
// change is released, else by one render that the upgrade then uses as well.
func (s *Session) Upgrade(_, _ string, _ *chart.Chart, _ map[string]any, opts ...helmclient.UpgradeOption) (*helmrelease.Release, error) {
	current, err := s.Current()
	if err != nil {
		return nil, err
	}
	settings := &action.Upgrade{}
	settings.DisableHooks = s.change.Settings.DisableHooks
	for _, o := range opts {
		if err := o(settings); err != nil {
			return nil, s.finish(err)
		}
	}
	if settings.DryRun {
		rel, err := s.wouldBe(current)
		if err != nil {
			s.outcome.Action = ActionUpgraded
		}
		return rel, s.failed(err)
	}
	s.outcome.Action = ActionUpgraded
	rel, err := s.upgrade(settings)
	return rel, s.finish(err)
}

// wouldBe returns the release as the change would make it.
func (s *Session) wouldBe(current *helmrelease.Release) (*helmrelease.Release, error) {
	if s.applied {
		return current, nil
	}
	r, err := s.render()
	if err != nil {
		return nil, err
	}
	if r.sameAs(current) && current.Info.Status == helmrelease.StatusDeployed {
		if err := s.record(); err != nil {
			return nil, err
		}
		return s.Current()
	}
	next := *current
	next.Manifest = r.manifest
	if next.Manifest == current.Manifest {
		next.Manifest += "# Hooks differ.\n" // makes the plugin see a difference
	}
	return &next, nil
}

func (s *Session) upgrade(settings *action.Upgrade) (*helmrelease.Release, error) {
	r, err := s.render()
	if err != nil {
		return nil, err
	}
	if err := s.pruneTries(); err != nil {
		return nil, err
	}
	rel := s.newRelease(r, helmrelease.StatusPendingUpgrade, "Preparing upgrade")
	if current, err := s.Current(); err == nil {
		rel.Info.FirstDeployed = current.Info.FirstDeployed
	}
	if err := s.create(rel); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded()
	defer cancel()
	err = timedOut(ctx, s.runUpgrade(ctx, rel, settings))
	if err == nil {
		description := settings.Description
		if description == "" {
			description = "Upgrade complete"
		}
		if err = s.end(rel, helmrelease.StatusDeployed, description); err == nil {
			s.settle(rel.Version)
			return rel, nil
		}
	}
	if s.stopping() {
		return nil, err
	}
	if failErr := s.end(rel, helmrelease.StatusFailed, s.redact(fmt.Sprintf("Upgrade failed: %s", err))); failErr != nil {
		return nil, fmt.Errorf("%w (and it could not be recorded: %w)", err, failErr)
	}
	return nil, s.rollBack(err)
}

// runUpgrade makes hooks and objects of a further revision.
func (s *Session) runUpgrade(ctx context.Context, rel *helmrelease.Release, settings *action.Upgrade) error {
	if err := s.installCRDs(ctx); err != nil {
		return err
	}
	target, err := s.parse(rel.Manifest, nil)
	if err != nil {
		return err
	}
	t := newTransition(s, s.applier(ctx, true))
	t.force = settings.Force
	if err := s.former(t, rel.Version); err != nil {
		return err
	}
	h := hooks{session: s, ctx: ctx, disabled: settings.DisableHooks, trusted: true}
	if err := h.run(rel, helmrelease.HookPreUpgrade); err != nil {
		return err
	}
	if err := t.run(target); err != nil {
		return err
	}
	return h.run(rel, helmrelease.HookPostUpgrade)
}

// former tells a transition what there is before it: the objects of the last
// revision that was deployed, one that is being uninstalled included, and those of tries that failed after it.
func (s *Session) former(t *transition, version int) error {
	earlier := slices.DeleteFunc(slices.Clone(s.records), func(r store.Record) bool { return r.Version >= version })
	base := -1
	for _, status := range []helmrelease.Status{helmrelease.StatusDeployed, helmrelease.StatusUninstalling, helmrelease.StatusSuperseded} {
		if base < 0 {
			base = lastWith(earlier, status)
		}
	}
	for i := max(base, 0); i < len(earlier); i++ {
		rel, err := s.load(earlier[i])
		if err != nil {
			return err
		}
		objects, err := s.parse(rel.Manifest, func(*unstructured.Unstructured) {}) // kinds that are gone leave nothing to remove
		if err != nil {
			return err
		}
		for _, o := range objects {
			before, had := t.before[o.key()]
			switch {
			case i == base:
				t.before[o.key()] = o
			case had:
				before.obj = &unstructured.Unstructured{Object: union(before.obj.Object, o.obj.Object)}
				t.before[o.key()] = before
			default:
				t.stale[o.key()] = o
			}
		}
	}
	return nil
}

func lastWith(records []store.Record, status helmrelease.Status) int {
	for i, r := range slices.Backward(records) {
		if r.Status == status {
			return i
		}
	}
	return -1
}

// rollBack takes the release back to the last revision that was deployed, after
// an upgrade failed for the given reason. It returns that reason. Immutable
// fields are never forced, unless the resource is annotated so.
func (s *Session) rollBack(cause error) error {
	if err := s.readRecords(); err != nil {
		return fmt.Errorf("%w (rolling back failed too: %w)", cause, err)
	}
	deployed, err := s.Deployed()
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return cause
	}
	if err == nil {
		err = s.rollBackTo(deployed)
	}
	if err != nil {
		return fmt.Errorf("%w (rolling back failed too: %w)", cause, err)
	}
	return cause
}

// Unfinished tells whether the newest revision failed while an earlier one is
// deployed: its rollback was interrupted, or never begun.
func (s *Session) Unfinished() bool {
	return s.holds == holdsRelease && s.newest().Status == helmrelease.StatusFailed && lastWith(s.records, helmrelease.StatusDeployed) >= 0
}

// Unsettled tells whether what is stored has yet to be ended: a revision that could
// not even be recorded as failed, or a rollback that did not get to its end.
func (s *Session) Unsettled() bool {
	return s.Unfinished() || len(s.records) > 0 && s.newest().Status.IsPending()
}

// FinishRollback takes an unfinished release back to the revision that is deployed.
func (s *Session) FinishRollback() error {
	deployed, err := s.Deployed()
	if err != nil {
		return err
	}
	return s.finish(s.rollBackTo(deployed))
}

func (s *Session) rollBackTo(deployed *helmrelease.Release) error {
	rel := *deployed
	info := *deployed.Info
	info.LastDeployed, info.Status = helmNow(), helmrelease.StatusPendingRollback
	info.Description = fmt.Sprintf("Rollback to %d", deployed.Version)
	rel.Info, rel.Version = &info, s.nextRevision()
	rel.Labels = map[string]string{v1alpha1.LabelDigest: deployed.Labels[v1alpha1.LabelDigest]}
	description := info.Description
	if err := s.create(&rel); err != nil {
		return err
	}
	ctx, cancel := s.bounded()
	defer cancel()
	err := timedOut(ctx, s.runRollback(ctx, &rel))
	if err == nil {
		if err = s.end(&rel, helmrelease.StatusDeployed, description); err == nil {
			s.settle(rel.Version)
			_ = s.pruneRollbacks() // or the next time
			s.outcome.RolledBackTo = deployed.Version
			return nil
		}
	}
	if s.stopping() {
		return err
	}
	return errors.Join(err, s.end(&rel, helmrelease.StatusFailed, s.redact(fmt.Sprintf("%s failed: %s", description, err))))
}

func (s *Session) runRollback(ctx context.Context, rel *helmrelease.Release) error {
	target, err := s.trustedObjects(rel)
	if err != nil {
		return err
	}
	t := newTransition(s, s.applier(ctx, false))
	t.force, t.backwards = s.change.annotated(annotationRollbackForce), true
	if err := s.former(t, rel.Version); err != nil {
		return err
	}
	h := hooks{session: s, ctx: ctx, disabled: s.change.Settings.DisableHooks, trusted: s.isWritten(PayloadDigest(rel))}
	if err := h.run(rel, helmrelease.HookPreRollback); err != nil {
		return err
	}
	if err := t.run(target); err != nil {
		return err
	}
	return h.run(rel, helmrelease.HookPostRollback)
}
