// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	helmkube "helm.sh/helm/v3/pkg/kube"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/identity"
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
	// Release as it is stored now; nil if there is none.
	Release *helmrelease.Release
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
// of the session's change, and are ignored in favor of it.
type Session struct {
	ctx      context.Context
	change   Change
	clients  *identity.Clients
	tracker  *dependents.Tracker
	releases *storage.Storage
	kube     *kubeClient

	outcome  Outcome
	loaded   bool
	current  *helmrelease.Release
	rendered *rendering

	parsedManifest string
	parsedObjects  []object
}

var _ helmclient.ActionInterface = (*Session)(nil)

// Session returns a session that brings about the change. Its requests end with ctx.
func (e *Engine) Session(ctx context.Context, change Change) (*Session, error) {
	clients, err := e.pool.For(change.Identity)
	if err != nil {
		return nil, err
	}
	s := &Session{ctx: ctx, change: change, clients: clients, tracker: e.tracker}
	owner := OwnerLabel(change.Owner.GroupVersionKind().GroupKind())
	s.releases = storage.Init(newDriver(clients, change.Namespace, owner))
	s.kube = &kubeClient{session: s, Client: &helmkube.Client{
		Factory:   factory{clients: clients, namespace: change.Namespace},
		Log:       func(string, ...any) {},
		Namespace: change.Namespace,
	}}
	return s, nil
}

// Outcome tells what happened so far.
func (s *Session) Outcome() Outcome {
	out := s.outcome
	out.Release = s.current
	return out
}

// Current returns the newest stored release, or driver.ErrReleaseNotFound. A
// release of the same name that belongs to somebody else is an error.
func (s *Session) Current() (*helmrelease.Release, error) {
	if !s.loaded {
		rel, err := s.releases.Last(s.change.Name)
		switch {
		case errors.Is(err, driver.ErrReleaseNotFound):
			rel = nil
		case err != nil:
			return nil, fmt.Errorf("release %s/%s: %w", s.change.Namespace, s.change.Name, err)
		default:
			if err := s.checkOwner(rel); err != nil {
				return nil, err
			}
		}
		s.current, s.loaded = rel, true
	}
	if s.current == nil {
		return nil, driver.ErrReleaseNotFound
	}
	return s.current, nil
}

// checkOwner refuses a release that this custom resource does not own.
func (s *Session) checkOwner(rel *helmrelease.Release) error {
	have := rel.Labels[v1alpha1.LabelOwner]
	if have == OwnerLabel(s.change.Owner.GroupVersionKind().GroupKind()) {
		return nil
	}
	who := "was not made by Chartgate"
	if have != "" {
		who = "belongs to a " + have
	}
	return terminal(CauseOwnership, fmt.Errorf("a Helm release %s in namespace %s exists and %s; it is left alone",
		rel.Name, rel.Namespace, who))
}

// Applied tells whether the current release is the change: there is nothing to
// install or upgrade.
func (s *Session) Applied() (bool, error) {
	rel, err := s.Current()
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return s.isChange(rel), nil
}

func (s *Session) isChange(rel *helmrelease.Release) bool {
	return rel.Info != nil && rel.Info.Status == helmrelease.StatusDeployed &&
		rel.Labels[v1alpha1.LabelDigest] == labelDigest(s.change.digest)
}

// Get implements ActionInterface.
func (s *Session) Get(string, ...helmclient.GetOption) (*helmrelease.Release, error) {
	return s.Current()
}

// History implements ActionInterface: newest revision first.
func (s *Session) History(string, ...helmclient.HistoryOption) ([]*helmrelease.Release, error) {
	rels, err := s.releases.History(s.change.Name)
	if err != nil {
		return nil, err
	}
	releaseutil.Reverse(rels, releaseutil.SortByRevision)
	return rels, nil
}

// Config implements ActionInterface.
func (s *Session) Config() *action.Configuration {
	return &action.Configuration{
		RESTClientGetter: factory{clients: s.clients, namespace: s.change.Namespace},
		Releases:         s.releases,
		KubeClient:       s.kube,
		Log:              func(string, ...any) {},
	}
}

// configuration is Config with the capabilities that the render used.
func (s *Session) configuration() (*action.Configuration, error) {
	caps, err := s.clients.Capabilities()
	if err != nil {
		return nil, err
	}
	cfg := s.Config()
	cfg.Capabilities = caps
	return cfg, nil
}

func (s *Session) applier(strict bool) applier {
	return applier{ctx: s.ctx, clients: s.clients, strict: strict}
}

// locate finds out where an object lives, and puts it into the release's
// namespace where it has to be in one and names none.
func (s *Session) locate(obj *unstructured.Unstructured) (object, error) {
	gvk := obj.GroupVersionKind()
	mapping, err := s.clients.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return object{}, fmt.Errorf("%s %s: %w", gvk.Kind, obj.GetName(), err)
	}
	o := object{mapping: mapping, obj: obj}
	switch {
	case !o.namespaced():
		obj.SetNamespace("")
	case obj.GetNamespace() == "":
		obj.SetNamespace(s.change.Namespace)
	}
	return o, nil
}

// objects returns the objects of a release's manifest, marked as its own. They
// are not to be modified: a manifest is parsed once for repair and report.
func (s *Session) objects(rel *helmrelease.Release) ([]object, error) {
	if s.parsedObjects != nil && s.parsedManifest == rel.Manifest {
		return s.parsedObjects, nil
	}
	parsed, err := parseManifestString(rel.Manifest)
	if err != nil {
		return nil, err
	}
	objects := make([]object, 0, len(parsed))
	for _, obj := range parsed {
		o, err := s.locate(obj)
		if err != nil {
			return nil, err
		}
		if err := stamp(o, s.change); err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	s.parsedManifest, s.parsedObjects = rel.Manifest, objects
	return objects, nil
}

// Refs names the objects of the current release.
func (s *Session) Refs() ([]dependents.Ref, error) {
	rel, err := s.Current()
	if err != nil {
		return nil, err
	}
	objects, err := s.objects(rel)
	if err != nil {
		return nil, err
	}
	refs := make([]dependents.Ref, 0, len(objects))
	for _, o := range objects {
		refs = append(refs, dependents.Ref{Mapping: o.mapping, Namespace: o.obj.GetNamespace(), Name: o.obj.GetName()})
	}
	return refs, nil
}

// watch has the objects' kinds watched.
func (s *Session) watch(objects []object) error {
	if len(objects) == 0 {
		return nil
	}
	seen := map[string]bool{}
	var kinds []*meta.RESTMapping
	for _, o := range objects {
		if key := o.mapping.GroupVersionKind.String(); !seen[key] {
			seen[key] = true
			kinds = append(kinds, o.mapping)
		}
	}
	return s.tracker.Watch(s.ctx, s.change.Identity, kinds)
}

// applied records an object that is as the release says.
func (s *Session) applied(o object, live *unstructured.Unstructured) {
	if o.obj.GetAnnotations()[helmNameAnnotation] != "" {
		s.tracker.Verified(s.change.Owner, live)
	}
}

func (s *Session) unchanged(o object) bool {
	return s.tracker.Unchanged(s.change.Owner, s.change.Identity, o.mapping, o.obj.GetNamespace(), o.obj.GetName())
}
