// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/identity"
	"github.com/chartgate/chartgate/internal/inputs"
	"github.com/chartgate/chartgate/internal/plan"
	"github.com/chartgate/chartgate/internal/release"
)

// plans publishes what held changes would do, each in a ConfigMap beside its
// resource. They are the operator's, whoever serves the resource. They are
// watched like what gates look at, so that one somebody edits or deletes is put back.
type plans struct {
	client client.Client
	// live reads past all caches.
	live   client.Reader
	inputs *inputs.Inputs

	mu    sync.Mutex
	shown map[dependents.Owner]shown
}

// shown is what a plan was made from, and what it says.
type shown struct {
	digest   string
	revision int
	data     [sha256.Size]byte
}

func newPlans(c client.Client, live client.Reader, in *inputs.Inputs) *plans {
	return &plans{client: c, live: live, inputs: in, shown: map[dependents.Owner]shown{}}
}

var configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// name returns the name of the resource's plan: the best that no object of somebody else has.
func (p *plans) name(ctx context.Context, obj *unstructured.Unstructured) string {
	names := plan.Names(obj.GroupVersionKind().GroupKind(), obj.GetName())
	for _, name := range names {
		found, err := p.find(ctx, obj, name)
		if err != nil || found == nil || plan.Ours(found, obj) {
			return name
		}
	}
	return names[len(names)-1]
}

// find returns the ConfigMap of that name beside the resource; nil if there is none.
// A request is made only where there is no watch.
func (p *plans) find(ctx context.Context, obj *unstructured.Unstructured, name string) (*corev1.ConfigMap, error) {
	reader := p.inputs.For(identity.Operator, dependents.OwnerOf(obj.GroupVersionKind().GroupKind(), obj))
	found, err := reader.Object(ctx, gate.Ref{GroupVersionKind: configMaps, Namespace: obj.GetNamespace(), Name: name})
	if errors.Is(err, gate.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s: %w", name, err)
	}
	cm := &corev1.ConfigMap{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, cm); err != nil {
		return nil, fmt.Errorf("ConfigMap %s: %w", name, err)
	}
	return cm, nil
}

// current tells whether the plan is published and speaks of the request's change
// as it is, so that there is nothing to render.
func (p *plans) current(ctx context.Context, req *Request) bool {
	p.mu.Lock()
	last, ok := p.shown[req.owner()]
	p.mu.Unlock()
	if !ok || last.digest != req.Change.Digest() || last.revision != req.Standing.Revision {
		return false
	}
	found, err := p.find(ctx, req.Object, req.Gating.Plan)
	return err == nil && found != nil && plan.Ours(found, req.Object) && last.data == sum(found)
}

// publish shows the change. The error never quotes a manifest.
func (p *plans) publish(ctx context.Context, req *Request, change release.Plan) error {
	content, err := plan.New(req.Change.Digest(), change.Current, change.Manifest, change.Secrets...)
	if err != nil {
		return err
	}
	want := plan.ConfigMap(req.Object, req.Gating.Plan, content)
	found, err := p.find(ctx, req.Object, want.Name)
	if err != nil {
		return err
	}
	if found == nil {
		err = p.client.Create(ctx, want.DeepCopy())
		if !apierrors.IsAlreadyExists(err) {
			return p.published(req, want, err)
		}
		found = &corev1.ConfigMap{} // the watch has not seen it yet
		if err := p.live.Get(ctx, client.ObjectKeyFromObject(want), found); err != nil {
			return fmt.Errorf("plan %s: %w", want.Name, err)
		}
	}
	if !plan.Ours(found, req.Object) {
		return fmt.Errorf("ConfigMap %s belongs to somebody else", want.Name)
	}
	if plan.Same(found, want) {
		return p.published(req, want, nil)
	}
	next := found.DeepCopy()
	next.TypeMeta, next.Data, next.BinaryData = want.TypeMeta, want.Data, nil
	return p.published(req, want, p.client.Update(ctx, next))
}

func (p *plans) published(req *Request, cm *corev1.ConfigMap, err error) error {
	if err != nil {
		return fmt.Errorf("plan %s: %w", cm.Name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown[req.owner()] = shown{digest: req.Change.Digest(), revision: req.Standing.Revision, data: sum(cm)}
	return nil
}

// clear deletes what shows a change that is not held any more.
func (p *plans) clear(ctx context.Context, req *Request) error {
	p.forget(req.owner())
	for _, name := range plan.Names(req.Object.GroupVersionKind().GroupKind(), req.Object.GetName()) {
		found, err := p.find(ctx, req.Object, name)
		if err != nil {
			return err
		}
		if found == nil || !plan.Ours(found, req.Object) {
			continue
		}
		uid := found.GetUID()
		err = p.client.Delete(ctx, found, client.Preconditions{UID: &uid})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete plan %s: %w", name, err)
		}
	}
	return nil
}

// forget drops what is remembered of the owner's plan.
func (p *plans) forget(owner dependents.Owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.shown, owner)
}

// sum is a digest of what the ConfigMap says.
func sum(cm *corev1.ConfigMap) [sha256.Size]byte {
	content, err := json.Marshal([]any{cm.Data, cm.BinaryData})
	if err != nil {
		return [sha256.Size]byte{}
	}
	return sha256.Sum256(content)
}
