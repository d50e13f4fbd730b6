// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// Install implements ActionInterface: it renders the change once and releases that.
// What a failed install made is taken away again.
func (s *Session) Install(_, _ string, _ *chart.Chart, _ map[string]any, opts ...helmclient.InstallOption) (*helmrelease.Release, error) {
	s.outcome.Action = ActionInstalled
	rel, err := s.install(opts)
	return rel, s.finish(rel, err)
}

func (s *Session) install(opts []helmclient.InstallOption) (*helmrelease.Release, error) {
	chrt, cfg, err := s.prepare(1, false)
	if err != nil {
		return nil, err
	}
	install := action.NewInstall(cfg)
	install.DisableHooks = s.change.Settings.DisableHooks
	for _, o := range opts {
		if err := o(install); err != nil {
			return nil, err
		}
	}
	install.ReleaseName = s.change.Name
	install.Namespace = s.change.Namespace
	install.Timeout = s.change.Settings.Timeout
	install.Labels = s.labels()
	install.SkipCRDs = true
	rel, err := install.RunWithContext(s.ctx, chrt, copyValues(s.change.Values))
	if err != nil {
		s.outcome.Attempted = rel != nil
		if rel != nil && s.ctx.Err() == nil {
			if cleanErr := s.cleanUp(); cleanErr != nil {
				err = fmt.Errorf("%w (taking away what was half installed failed too: %w)", err, cleanErr)
			}
		}
		return nil, err
	}
	return rel, nil
}

// cleanUp uninstalls what a failed install left.
func (s *Session) cleanUp() error {
	uninstall := action.NewUninstall(s.Config())
	uninstall.DisableHooks = true
	uninstall.IgnoreNotFound = true
	uninstall.Timeout = s.change.Settings.Timeout
	_, err := uninstall.Run(s.change.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	return err
}

// Upgrade implements ActionInterface. The plugin's dry run, by which it decides
// whether to upgrade, is answered from the digest: without rendering where the
// change is released, else by one render that the upgrade then uses as well.
func (s *Session) Upgrade(_, _ string, _ *chart.Chart, _ map[string]any, opts ...helmclient.UpgradeOption) (*helmrelease.Release, error) {
	current, err := s.Current()
	if err != nil {
		return nil, err
	}
	upgrade := &action.Upgrade{} // to read the options: is it a dry run?
	for _, o := range opts {
		if err := o(upgrade); err != nil {
			return nil, err
		}
	}
	if upgrade.DryRun {
		rel, err := s.wouldBe(current)
		if err != nil {
			s.outcome.Action, s.outcome.Err = ActionUpgraded, err
		}
		return rel, err
	}
	s.outcome.Action = ActionUpgraded
	rel, err := s.upgrade(current, opts)
	return rel, s.finish(rel, err)
}

// wouldBe returns the release as the change would make it.
func (s *Session) wouldBe(current *helmrelease.Release) (*helmrelease.Release, error) {
	if s.isChange(current) {
		return current, nil
	}
	r, err := s.render(current.Version+1, true)
	if err != nil {
		return nil, err
	}
	if r.sameAs(current) && current.Info.Status == helmrelease.StatusDeployed {
		return current, s.record(current)
	}
	next := *current
	next.Manifest = r.manifest
	if next.Manifest == current.Manifest {
		next.Manifest += "# Hooks differ.\n" // makes the plugin see a difference
	}
	return &next, nil
}

// record notes on the release that the change is what it holds.
func (s *Session) record(current *helmrelease.Release) error {
	next := *current
	next.Labels = map[string]string{}
	maps.Copy(next.Labels, current.Labels)
	next.Labels[v1alpha1.LabelDigest] = labelDigest(s.change.digest)
	if err := s.releases.Update(&next); err != nil {
		return fmt.Errorf("note the digest on release %s: %w", s.change.Name, err)
	}
	s.current = &next
	s.outcome.Action = ActionRecorded
	return nil
}

func (s *Session) upgrade(current *helmrelease.Release, opts []helmclient.UpgradeOption) (*helmrelease.Release, error) {
	chrt, cfg, err := s.prepare(current.Version+1, true)
	if err != nil {
		return nil, err
	}
	upgrade := action.NewUpgrade(cfg)
	upgrade.DisableHooks = s.change.Settings.DisableHooks
	for _, o := range opts {
		if err := o(upgrade); err != nil {
			return nil, err
		}
	}
	upgrade.Namespace = s.change.Namespace
	upgrade.Timeout = s.change.Settings.Timeout
	upgrade.MaxHistory = s.change.Settings.MaxHistory
	upgrade.Labels = s.labels()
	upgrade.ResetValues = true
	upgrade.SkipCRDs = true
	rel, err := upgrade.RunWithContext(s.ctx, s.change.Name, chrt, copyValues(s.change.Values))
	if err != nil {
		s.outcome.Attempted = rel != nil
		if rel != nil && s.ctx.Err() == nil {
			err = s.rollBack(err)
		}
		return nil, err
	}
	return rel, nil
}

// rollBack takes the release back to the last revision that was deployed, after
// an upgrade failed for the given reason. Immutable fields are never forced.
func (s *Session) rollBack(cause error) error {
	deployed, err := s.releases.Deployed(s.change.Name)
	if errors.Is(err, driver.ErrNoDeployedReleases) {
		return cause
	}
	if err == nil {
		rollback := action.NewRollback(s.Config())
		rollback.Version = deployed.Version
		rollback.MaxHistory = s.change.Settings.MaxHistory
		rollback.DisableHooks = s.change.Settings.DisableHooks
		rollback.Timeout = s.change.Settings.Timeout
		rollback.CleanupOnFail = true
		err = rollback.Run(s.change.Name)
	}
	if err != nil {
		return fmt.Errorf("%w (rolling back failed too: %w)", cause, err)
	}
	s.outcome.RolledBackTo = deployed.Version
	return cause
}

// Uninstall implements ActionInterface.
func (s *Session) Uninstall(_ string, opts ...helmclient.UninstallOption) (*helmrelease.UninstallReleaseResponse, error) {
	s.outcome.Action = ActionUninstalled
	resp, err := s.doUninstall(opts)
	return resp, s.finish(nil, err)
}

func (s *Session) doUninstall(opts []helmclient.UninstallOption) (*helmrelease.UninstallReleaseResponse, error) {
	if _, err := s.Current(); err != nil {
		if cause, _ := Classify(err); cause == CauseOwnership {
			return nil, driver.ErrReleaseNotFound // somebody else's: ours does not exist
		}
		return nil, err
	}
	uninstall := action.NewUninstall(s.Config())
	uninstall.DisableHooks = s.change.Settings.DisableHooks
	uninstall.Timeout = s.change.Settings.Timeout
	for _, o := range opts {
		if err := o(uninstall); err != nil {
			return nil, err
		}
	}
	return uninstall.Run(s.change.Name)
}

// Reconcile implements ActionInterface: it puts objects of the release back
// that were changed or removed since they were last verified.
func (s *Session) Reconcile(rel *helmrelease.Release) error {
	err := s.repair(rel)
	if err != nil {
		s.outcome.Err = err
	}
	return err
}

func (s *Session) repair(rel *helmrelease.Release) error {
	objects, err := s.objects(rel)
	if err != nil {
		return err
	}
	if err := s.watch(objects); err != nil {
		return err
	}
	a := s.applier(false)
	var errs []error
	for _, o := range objects {
		if s.unchanged(o) {
			continue
		}
		live, done, err := a.restore(o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if done != "" {
			s.outcome.Repaired = append(s.outcome.Repaired, o.String()+" "+done)
		}
		s.applied(o, live)
	}
	return errors.Join(errs...)
}

// finish notes how an action ended.
func (s *Session) finish(rel *helmrelease.Release, err error) error {
	s.loaded, s.current = false, nil
	if err != nil && strings.Contains(err.Error(), "cannot be imported into the current release") {
		err = terminal(CauseOwnership, err)
	}
	if err != nil {
		if !errors.Is(err, driver.ErrReleaseNotFound) {
			s.outcome.Err = err
		}
		return err
	}
	if rel != nil {
		s.loaded, s.current = true, rel
	}
	return nil
}

// labels of the release Secret that the change writes.
func (s *Session) labels() map[string]string {
	return map[string]string{v1alpha1.LabelDigest: labelDigest(s.change.digest)}
}

// render renders the change; the same revision is rendered once a session.
func (s *Session) render(revision int, upgrade bool) (*rendering, error) {
	if s.rendered == nil {
		r, err := render(s.clients, s.change, revision, upgrade)
		if err != nil {
			return nil, err
		}
		s.rendered = r
	}
	return s.rendered, nil
}

// prepare makes the chart's CRDs, and returns the change as a rendered chart
// with the configuration that an action releases it by.
func (s *Session) prepare(revision int, upgrade bool) (*chart.Chart, *action.Configuration, error) {
	if err := s.installCRDs(); err != nil {
		return nil, nil, err
	}
	r, err := s.render(revision, upgrade)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := s.configuration()
	if err != nil {
		return nil, nil, err
	}
	return literalChart(s.change.Chart, r.files), cfg, nil
}

func parseManifestString(manifest string) ([]*unstructured.Unstructured, error) {
	return parseManifest(strings.NewReader(manifest))
}
