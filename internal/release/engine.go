// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/identity"
)

// Engine makes sessions. It is safe for concurrent use.
type Engine struct {
	pool    *identity.Pool
	tracker *dependents.Tracker
}

var _ helmclient.ActionClientGetter = (*Engine)(nil)

// NewEngine returns an engine that acts with the pool's clients, and has the
// objects it releases watched by the tracker.
func NewEngine(pool *identity.Pool, tracker *dependents.Tracker) *Engine {
	return &Engine{pool: pool, tracker: tracker}
}

// ReleaseName returns the name of the owner's release in the namespace: that
// of the release it has, else the first that is free. Names of releases that
// belong to other kinds are passed over.
func (e *Engine) ReleaseName(ctx context.Context, owner *unstructured.Unstructured, id identity.Identity, namespace string) (string, error) {
	gk := owner.GroupVersionKind().GroupKind()
	clients, err := e.pool.For(id)
	if err != nil {
		return "", err
	}
	releases := storage.Init(newDriver(clients, namespace, OwnerLabel(gk)))
	free := ""
	for _, name := range Names(gk, owner.GetName()) {
		rel, err := releases.Last(name)
		switch {
		case errors.Is(err, driver.ErrReleaseNotFound):
			if free == "" {
				free = name
			}
			continue
		case err != nil:
			return "", fmt.Errorf("release %s/%s: %w", namespace, name, err)
		}
		switch rel.Labels[v1alpha1.LabelOwner] {
		case OwnerLabel(gk):
			return name, nil
		case "":
			if free == "" {
				free = name // made without Chartgate: refused by name when it comes to it
			}
		}
	}
	return free, ctx.Err()
}

type sessionKey struct{}

// WithSession returns a context in which ActionClientFor gives out the session.
func WithSession(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// ActionClientFor implements helm-operator-plugins' ActionClientGetter: it
// gives out the context's session.
func (e *Engine) ActionClientFor(ctx context.Context, obj client.Object) (helmclient.ActionInterface, error) {
	s, ok := ctx.Value(sessionKey{}).(*Session)
	if !ok {
		return nil, fmt.Errorf("%s/%s: %w", obj.GetNamespace(), obj.GetName(), errors.New("no session in the context"))
	}
	return s, nil
}
