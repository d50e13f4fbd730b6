// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Uninstall implements ActionInterface: it deletes the objects of the release,
// of tries that failed too, and then all that is stored of it, the newest
// revision last, so that an uninstall that is interrupted can be gone on with.
func (s *Session) Uninstall(_ string, opts ...helmclient.UninstallOption) (*helmrelease.UninstallReleaseResponse, error) {
	s.outcome.Action = ActionUninstalled
	settings := &action.Uninstall{}
	settings.DisableHooks = s.change.Settings.DisableHooks
	for _, o := range opts {
		if err := o(settings); err != nil {
			return nil, s.finish(err)
		}
	}
	if err := s.readRecords(); err != nil {
		return nil, s.finish(err)
	}
	if len(s.records) == 0 || !s.owned() {
		if err := s.sweep(); err != nil { // somebody else's, or gone: ours does not exist
			return nil, s.finish(err)
		}
		return nil, driver.ErrReleaseNotFound
	}
	rel, err := s.load(s.newest())
	if err == nil {
		err = s.uninstall(rel, settings)
	}
	if err != nil {
		return nil, s.finish(err)
	}
	s.records, s.holds, s.current = nil, holdsNothing, nil
	s.engine.Forget(s.change.owner())
	return &helmrelease.UninstallReleaseResponse{Release: rel}, nil
}

func (s *Session) uninstall(rel *helmrelease.Release, settings *action.Uninstall) error {
	ctx, cancel := s.bounded()
	defer cancel()
	h := hooks{session: s, ctx: ctx, disabled: settings.DisableHooks, trusted: s.isWritten(PayloadDigest(rel))}
	if rel.Info.Status != helmrelease.StatusUninstalling && rel.Info.Status != helmrelease.StatusUninstalled {
		if err := h.run(rel, helmrelease.HookPreDelete); err != nil {
			return timedOut(ctx, fmt.Errorf("%w (to uninstall without hooks, annotate the resource with "+
				"helm.sdk.operatorframework.io/uninstall-disable-hooks=true)", err))
		}
		rel.Info.Deleted = helmNow()
		if err := s.end(rel, helmrelease.StatusUninstalling, "Deletion in progress"); err != nil {
			return err
		}
		if err := s.readRecords(); err != nil {
			return err
		}
	}
	if err := s.deleteObjects(ctx, s.change.annotated(annotationUninstallWait)); err != nil {
		return timedOut(ctx, err)
	}
	if err := h.run(rel, helmrelease.HookPostDelete); err != nil {
		return timedOut(ctx, err)
	}
	if err := s.deleteData(s.applier(ctx, false)); err != nil {
		return timedOut(ctx, err)
	}
	return s.purge()
}

// sweep deletes what may be left of a release that is not stored (any more), as
// when its namespace is being deleted: what a rendering of the change would
// make, as far as it is there and carries the release's mark.
func (s *Session) sweep() error {
	if s.change.Chart == nil {
		return nil
	}
	ctx, cancel := s.bounded()
	defer cancel()
	r, err := render(ctx, s.clients, s.change, 1, true)
	if err != nil {
		return nil //nolint:nilerr // a change that does not render has nothing released
	}
	objects, err := s.parse(r.manifest, func(*unstructured.Unstructured) {})
	if err != nil {
		return nil //nolint:nilerr // nor has one whose objects cannot be told
	}
	a := s.applier(ctx, false)
	var errs []error
	for _, o := range uninstallOrder(objects) {
		_, err := s.removeOwned(a, o, nil)
		errs = append(errs, unlessUnseen(err))
	}
	if len(s.change.Written) > 0 { // there was a release, which somebody removed by hand
		errs = append(errs, s.deleteData(a))
	}
	return timedOut(ctx, errors.Join(errs...))
}

// deleteObjects deletes the objects of all that is stored and may still exist:
// the last revision that was deployed and what came after it. With wait, it
// returns when they are gone.
func (s *Session) deleteObjects(ctx context.Context, wait bool) error {
	t := newTransition(s, s.applier(ctx, false))
	if err := s.former(t, s.nextVersion()); err != nil {
		return err
	}
	type gone struct {
		object
		uid string
	}
	var (
		deleted []gone
		errs    []error
	)
	for _, o := range uninstallOrder(sortedByKey(t.all())) {
		live, err := t.removeOwned(o)
		if err != nil {
			errs = append(errs, err)
		} else if live != nil {
			deleted = append(deleted, gone{o, string(live.GetUID())})
		}
	}
	if err := errors.Join(errs...); err != nil || !wait {
		return err
	}
	for _, g := range deleted {
		if err := t.applier.waitGone(g.object, g.uid); err != nil {
			return err
		}
	}
	return nil
}

// nextVersion is past all that is stored.
func (s *Session) nextVersion() int {
	if len(s.records) == 0 {
		return 1
	}
	return s.newest().Version + 1
}
