// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"maps"
	"slices"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/identity"
	"github.com/chartgate/chartgate/internal/release/store"
)

// Action is what a session did.
type Action string

// The actions.
const (
	// ActionNone: nothing had to change, or everything was repaired to what is released.
	ActionNone Action = ""
	// ActionInstalled: the first revision was released.
	ActionInstalled Action = "Installed"
	// ActionUpgraded: a further revision was released.
	ActionUpgraded Action = "Upgraded"
	// ActionRecorded: the change renders to what is released; only its digest was noted.
	ActionRecorded Action = "Recorded"
	// ActionUninstalled: release and objects are gone.
	ActionUninstalled Action = "Uninstalled"
)

// Outcome is what happened in a session.
type Outcome struct {
	// Action that was done, or tried and failed if Err is set.
	Action Action
	// Established are revisions whose payloads are known to be Chartgate's since this session.
	Established []v1alpha1.HistoryEntry
	// Repaired names the objects that were created or changed back, with what was done.
	Repaired []string
	// Attempted is true when the action got as far as storing a revision.
	Attempted bool
	// RolledBackTo is the revision a failed upgrade was rolled back to; 0 for none.
	RolledBackTo int
	// Err is why the action failed, with its classification intact.
	Err error
}

// Session serves one custom resource during one reconcile. It is the action
// client that helm-operator-plugins calls: names and values it passes are those
// of the session's change, and are ignored in favor of it. It is not safe for
// concurrent use.
type Session struct {
	ctx     context.Context
	change  Change
	clients *identity.Clients
	engine  *Engine
	store   *store.Driver

	records  []store.Record
	holds    holding
	applied  bool
	current  *helmrelease.Release
	rendered *rendering
	outcome  Outcome

	parsedManifest string
	parsedObjects  []object
}

var _ helmclient.ActionInterface = (*Session)(nil)

// Outcome tells what happened so far.
func (s *Session) Outcome() Outcome { return s.outcome }

// Current returns the newest stored release, or driver.ErrReleaseNotFound where
// there is none that could be upgraded. Examine comes first.
func (s *Session) Current() (*helmrelease.Release, error) {
	if s.holds != holdsRelease {
		return nil, driver.ErrReleaseNotFound
	}
	if s.current == nil {
		rel, err := s.load(s.newest())
		if err != nil {
			return nil, err
		}
		s.current = rel
	}
	return s.current, nil
}

// Deployed returns the release that is deployed: the newest, or the one before
// a try that failed. Without one it returns driver.ErrReleaseNotFound.
func (s *Session) Deployed() (*helmrelease.Release, error) {
	i := lastWith(s.records, helmrelease.StatusDeployed)
	if i < 0 {
		return nil, driver.ErrReleaseNotFound
	}
	return s.load(s.records[i])
}

// Get implements ActionInterface.
func (s *Session) Get(string, ...helmclient.GetOption) (*helmrelease.Release, error) {
	return s.Current()
}

// History implements ActionInterface: newest revision first.
func (s *Session) History(string, ...helmclient.HistoryOption) ([]*helmrelease.Release, error) {
	out := make([]*helmrelease.Release, 0, len(s.records))
	for _, r := range slices.Backward(s.records) {
		rel, err := s.load(r)
		if err != nil {
			return nil, err
		}
		out = append(out, rel)
	}
	return out, nil
}

// Config implements ActionInterface. Only its storage is of use: actions are the session's own.
func (s *Session) Config() *action.Configuration {
	return &action.Configuration{Releases: storage.Init(s.store), Log: func(string, ...any) {}}
}

func (s *Session) applier(ctx context.Context, strict bool) applier {
	return applier{ctx: ctx, clients: s.clients, strict: strict}
}

// Objects names what the current release consists of. While all of it is as it
// was when last verified, the release is not even read for that.
func (s *Session) Objects() ([]dependents.Ref, error) {
	if refs, ok := s.Unmoved(); ok {
		return refs, nil
	}
	rel, err := s.Current()
	if err != nil {
		return nil, err
	}
	objects, err := s.trustedObjects(rel)
	if err != nil {
		return nil, err
	}
	refs := make([]dependents.Ref, 0, len(objects))
	for _, o := range objects {
		refs = append(refs, o.ref())
	}
	return refs, nil
}

// Unmoved returns the released objects if none was touched since all were
// verified, so that there is nothing to look at.
func (s *Session) Unmoved() ([]dependents.Ref, bool) {
	return s.engine.tracker.Unmoved(s.change.Owner, s.change.Identity, s.mode(), s.Basis())
}

// Basis is what the list of released objects comes from: the revision that is
// deployed, and what the change asks of its objects beyond that.
func (s *Session) Basis() dependents.Basis {
	basis := dependents.Basis{Variant: s.change.Scale.String()}
	if i := lastWith(s.records, helmrelease.StatusDeployed); i >= 0 {
		basis.Revision = s.records[i].Version
	}
	return basis
}

// trustedObjects returns the objects of a stored release that may be written
// with the identity's rights: all of them where the payload is known to be
// Chartgate's, else those in the owner's namespace. They are not to be modified.
func (s *Session) trustedObjects(rel *helmrelease.Release) ([]object, error) {
	if s.parsedObjects != nil && s.parsedManifest == rel.Manifest {
		return s.parsedObjects, nil
	}
	objects, err := s.parse(rel.Manifest, nil)
	if err != nil {
		return nil, err
	}
	if !s.isWritten(PayloadDigest(rel)) {
		objects = s.within(objects)
	}
	if err := s.change.Scale.set(objects, s.change.Namespace); err != nil {
		return nil, err
	}
	s.parsedManifest, s.parsedObjects = rel.Manifest, objects
	return objects, nil
}

// mode of treating drift, as verifications are kept under.
func (s *Session) mode() string { return string(s.change.Settings.Drift) }

// verified records that a live object is as o says.
func (s *Session) verified(o object, live *unstructured.Unstructured) {
	s.engine.tracker.Verified(s.change.Owner, live, o.print())
}

// unchanged tells whether the live object is known to be as o says, or was
// looked at since it changed and is left as it is in the given mode.
func (s *Session) unchanged(o object, mode string) bool {
	return s.engine.tracker.Unchanged(s.change.Owner, s.change.Identity, o.ref(), o.print(), mode)
}

// labels of the release Secret that the change writes.
func (s *Session) labels() map[string]string {
	return map[string]string{v1alpha1.LabelDigest: labelDigest(s.change.digest)}
}

// render renders the change, once a session.
func (s *Session) render() (*rendering, error) {
	if s.rendered == nil {
		r, err := render(s.ctx, s.clients, s.change, s.nextRevision(), s.holds == holdsRelease)
		if err != nil {
			return nil, err
		}
		s.rendered = r
	}
	return s.rendered, nil
}

// Plan is what releasing the change would write.
type Plan struct {
	// Revision that would be stored.
	Revision int
	// Payload is the digest of manifest and hooks.
	Payload string
	// Manifest that would be released, and the one that is; empty if nothing is.
	Manifest, Current string
	// Secrets are values in either of them that came from Secrets, and must not show.
	Secrets []string
	// Same is true when that is what is deployed: only the digest will be noted.
	Same bool
}

// Plan renders the change and returns what releasing it would write.
func (s *Session) Plan() (Plan, error) {
	r, err := s.render()
	if err != nil {
		s.outcome.Action = ActionInstalled
		if s.holds == holdsRelease {
			s.outcome.Action = ActionUpgraded
		}
		return Plan{}, s.failed(err)
	}
	p := Plan{Revision: s.nextRevision(), Manifest: r.manifest}
	p.Payload = PayloadDigest(&helmrelease.Release{Manifest: r.manifest, Hooks: r.hooks})
	p.Secrets = secretsAt(s.change.Values, s.change.Secret)
	if rel, err := s.Current(); err == nil {
		p.Current = rel.Manifest
		p.Secrets = append(p.Secrets, secretsAt(rel.Config, slices.Concat(s.change.Secret, secretsOf(rel)))...)
		p.Same = r.sameAs(rel) && rel.Info.Status == helmrelease.StatusDeployed
	}
	return p, nil
}

// Begun tells the session that a revision about to be written is on record as Chartgate's.
func (s *Session) Begun(entry v1alpha1.HistoryEntry) {
	s.change.Written = append(slices.Clone(s.change.Written), entry)
}

// newRelease returns the change as a revision to be stored.
func (s *Session) newRelease(r *rendering, status helmrelease.Status, description string) *helmrelease.Release {
	now := helmNow()
	return &helmrelease.Release{
		Name: s.change.Name, Namespace: s.change.Namespace, Version: s.nextRevision(),
		Chart: withSecrets(s.change.Chart, s.change.Secret), Config: copyValues(s.change.Values),
		Manifest: r.manifest, Hooks: r.copyHooks(),
		Labels: s.labels(),
		Info: &helmrelease.Info{
			FirstDeployed: now, LastDeployed: now, Status: status, Description: description, Notes: r.notes,
		},
	}
}

// store a revision that is new.
func (s *Session) create(rel *helmrelease.Release) error {
	if err := s.store.Create(recordKey(rel), rel); err != nil {
		return err
	}
	s.outcome.Attempted = true
	s.engine.wrote.Add(writtenKey{rel.Namespace, rel.Name, PayloadDigest(rel)}, nil)
	return nil
}

// end stores how a revision ended.
func (s *Session) end(rel *helmrelease.Release, status helmrelease.Status, description string) error {
	rel.SetStatus(status, description)
	rel.Labels = maps.Clone(rel.Labels)
	return s.store.Update(recordKey(rel), rel)
}

// finish notes how an action ended, and reads what is stored now.
func (s *Session) finish(err error) error {
	s.parsedObjects, s.parsedManifest = nil, ""
	if readErr := s.readRecords(); err == nil {
		err = readErr
	}
	return s.failed(err)
}

// failed notes an error, if it is one, with the change's secrets taken out.
func (s *Session) failed(err error) error {
	if err == nil {
		return nil
	}
	s.outcome.Err = s.Redact(err)
	return s.outcome.Err
}
