// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	helmrelease "helm.sh/helm/v3/pkg/release"
	helmtime "helm.sh/helm/v3/pkg/time"
)

func helmNow() helmtime.Time { return helmtime.Now() }

// bounded returns a context for one action.
func (s *Session) bounded() (context.Context, context.CancelFunc) {
	timeout := s.change.Settings.Timeout
	return context.WithTimeoutCause(s.ctx, timeout, &timeoutError{after: timeout})
}

// timeoutError says that an action took longer than its settings allow.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("not done within %s (spec.release.timeout, or --timeout, allows more)", e.after)
}

// timedOut puts the reason in words where an action ended because its time was over.
func timedOut(ctx context.Context, err error) error {
	var t *timeoutError
	if err != nil && errors.As(context.Cause(ctx), &t) {
		return fmt.Errorf("%w: %w", t, err)
	}
	return err
}

// stopping tells whether the operator is going down: nothing more is written
// then, and the next one goes on from what is stored.
func (s *Session) stopping() bool { return s.ctx.Err() != nil }

// Install implements ActionInterface: it renders the change once and releases that.
// What a failed install made is taken away again.
func (s *Session) Install(_, _ string, _ *chart.Chart, _ map[string]any, opts ...helmclient.InstallOption) (*helmrelease.Release, error) {
	s.outcome.Action = ActionInstalled
	settings := &action.Install{}
	settings.DisableHooks = s.change.Settings.DisableHooks
	for _, o := range opts {
		if err := o(settings); err != nil {
			return nil, s.finish(err)
		}
	}
	rel, err := s.install(settings)
	return rel, s.finish(err)
}

func (s *Session) install(settings *action.Install) (*helmrelease.Release, error) {
	r, err := s.render()
	if err != nil {
		return nil, err
	}
	if s.holds == holdsRemains {
		if err := s.cleanUp(); err != nil {
			return nil, fmt.Errorf("take away what an install that stopped half-way left: %w", err)
		}
	}
	rel := s.newRelease(r, helmrelease.StatusPendingInstall, "Initial install underway")
	err = s.create(rel)
	if s.lacksNamespace(err) {
		if err = s.makeNamespace(); err == nil {
			err = s.create(rel)
		}
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded()
	defer cancel()
	err = timedOut(ctx, s.runInstall(ctx, rel, settings.DisableHooks))
	if err == nil {
		description := settings.Description
		if description == "" {
			description = "Install complete"
		}
		if err = s.end(rel, helmrelease.StatusDeployed, description); err == nil {
			return rel, nil
		}
	}
	if s.stopping() {
		return nil, err
	}
	if failErr := s.end(rel, helmrelease.StatusFailed, s.redact(fmt.Sprintf("Install failed: %s", err))); failErr != nil {
		return nil, fmt.Errorf("%w (and it could not be recorded: %w)", err, failErr)
	}
	if cleanErr := s.cleanUp(); cleanErr != nil {
		err = fmt.Errorf("%w (taking away what was half installed failed too: %w)", err, cleanErr)
	}
	return nil, err
}

// runInstall makes hooks and objects of a first revision.
func (s *Session) runInstall(ctx context.Context, rel *helmrelease.Release, disableHooks bool) error {
	if err := s.installCRDs(ctx); err != nil {
		return err
	}
	objects, err := s.parse(rel.Manifest, nil)
	if err != nil {
		return err
	}
	h := hooks{session: s, ctx: ctx, disabled: disableHooks, trusted: true}
	if err := h.run(rel, helmrelease.HookPreInstall); err != nil {
		return err
	}
	if err := newTransition(s, s.applier(ctx, true)).run(objects); err != nil {
		return err
	}
	return h.run(rel, helmrelease.HookPostInstall)
}

// cleanUp takes away what an install that failed or was interrupted left:
// objects, then what is stored.
func (s *Session) cleanUp() error {
	ctx, cancel := s.bounded()
	defer cancel()
	if err := s.readRecords(); err != nil {
		return err
	}
	if s.holds == holdsRelease {
		return nil // somebody made it whole
	}
	if err := s.deleteObjects(ctx, false); err != nil {
		return timedOut(ctx, err)
	}
	if err := s.purge(); err != nil {
		return err
	}
	return s.readRecords()
}
