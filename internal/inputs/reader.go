// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/identity"
)

// reader reads for one owner.
type reader struct {
	inputs *Inputs
	id     identity.Identity
	owner  dependents.Owner
	// contents is true where it does not read for the owner's gates, but for its chart and values.
	contents bool
}

var _ gate.Reader = reader{}

// Kind returns what the API server says of the kind.
func (r reader) Kind(_ context.Context, gvk schema.GroupVersionKind) (gate.Kind, error) {
	_, mapping, err := r.inputs.mapping(r.id, gvk)
	if err != nil {
		return gate.Kind{}, err
	}
	return gate.Kind{Resource: mapping.Resource.Resource, Namespaced: namespaced(mapping)}, nil
}

var errSecret = errors.New("a gate asked for the content of a Secret; this is a fault of the operator")

// Object returns the object, without managed fields.
func (r reader) Object(ctx context.Context, ref gate.Ref) (*unstructured.Unstructured, error) {
	if gk := ref.GroupVersionKind.GroupKind(); gk == (schema.GroupKind{Kind: "Secret"}) {
		return nil, errSecret
	}
	v, err := r.view(ctx, ref)
	if err != nil {
		return nil, err
	}
	if v.store == nil {
		return v.read(ctx, ref)
	}
	obj, err := v.stored(ref)
	if err != nil {
		return nil, err
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u, nil
	}
	return v.watch.object(ctx, ref.Name, obj.GetResourceVersion())
}

// Keys returns the names of the keys of a ConfigMap or Secret.
func (r reader) Keys(ctx context.Context, ref gate.Ref) ([]string, error) {
	v, err := r.view(ctx, ref)
	if err != nil {
		return nil, err
	}
	if v.store == nil {
		obj, err := v.read(ctx, ref)
		if err != nil {
			return nil, err
		}
		return keysOf(obj), nil
	}
	obj, err := v.stored(ref)
	if err != nil {
		return nil, err
	}
	return v.watch.keys(ctx, ref.Name, obj.GetResourceVersion())
}

// Approvals returns the ReleaseApprovals that target the kind and name.
func (r reader) Approvals(ctx context.Context, ref gate.Ref) ([]v1alpha1.ReleaseApproval, error) {
	v, err := r.view(ctx, ref)
	if err != nil {
		return nil, err
	}
	var found []*unstructured.Unstructured
	if v.store == nil {
		if found, err = v.list(ctx); err != nil {
			return nil, err
		}
	} else {
		objs, err := v.store.ByIndex(approvedIndex, ref.Approves+"/"+ref.Name)
		if err != nil {
			return nil, fmt.Errorf("find ReleaseApprovals: %w", err)
		}
		for _, obj := range objs {
			if u, ok := obj.(*unstructured.Unstructured); ok {
				found = append(found, u)
			}
		}
	}
	var all []v1alpha1.ReleaseApproval
	for _, u := range found {
		if kind, name, ok := approved(u); !ok || kind != ref.Approves || name != ref.Name {
			continue
		}
		var approval v1alpha1.ReleaseApproval
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &approval); err != nil {
			return nil, fmt.Errorf("ReleaseApproval %s: %w", u.GetName(), err)
		}
		all = append(all, approval)
	}
	return all, nil
}

// view is where an object is looked up: in the store of its watch, or, where
// store is nil, by requests.
type view struct {
	watch   *watch // may be nil where store is
	store   cache.Indexer
	key     watchKey
	clients *identity.Clients
	mapping *meta.RESTMapping
}

// view notes the use, and returns where to look it up.
func (r reader) view(ctx context.Context, ref gate.Ref) (view, error) {
	u := useOf(r.id, ref)
	clients, mapping, err := r.inputs.mapping(u.id, ref.GroupVersionKind)
	if err != nil {
		return view{}, err
	}
	v := view{key: u.watch(), clients: clients, mapping: mapping}
	if v.watch = r.use(u, mapping, clients); v.watch == nil {
		return v, nil
	}
	store, err := v.watch.wait(ctx, &r.owner)
	v.store = store
	return v, err
}

// use notes that the owner looks at the object, and returns the watch of it,
// which it starts if there is none. Past the bound it returns nil.
func (r reader) use(u use, mapping *meta.RESTMapping, clients *identity.Clients) *watch {
	i := r.inputs
	i.mu.Lock()
	defer i.mu.Unlock()
	state := i.state(r.owner)
	i.add(r.owner, state, u)
	if r.contents {
		state.contents[u] = true
	}
	key := u.watch()
	if w, ok := i.watches[key]; ok {
		return w
	}
	if len(i.watches) >= maxWatches {
		return nil
	}
	w := i.newWatch(key, mapping, clients)
	i.watches[key] = w
	w.start()
	return w
}

// mapping returns the clients of the identity, and how the kind is served.
func (i *Inputs) mapping(id identity.Identity, gvk schema.GroupVersionKind) (*identity.Clients, *meta.RESTMapping, error) {
	clients, err := i.pool.For(id)
	if err != nil {
		return nil, nil, err
	}
	mapping, err := clients.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return nil, nil, &gate.NoKindError{GroupVersionKind: gvk}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("how the cluster serves %s: %w", gvk, err)
	}
	return clients, mapping, nil
}

func namespaced(mapping *meta.RESTMapping) bool {
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace
}

// stored returns what the store has of the object.
func (v view) stored(ref gate.Ref) (metav1.Object, error) {
	key := ref.Name
	if ref.Namespace != "" {
		key = ref.Namespace + "/" + ref.Name
	}
	obj, ok, err := v.store.GetByKey(key)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", key, err)
	}
	o, isObject := obj.(metav1.Object)
	if !ok || !isObject {
		return nil, gate.ErrNotFound
	}
	return o, nil
}

func (v view) resource() dynamic.ResourceInterface {
	if namespaced(v.mapping) {
		return v.clients.Dynamic.Resource(v.mapping.Resource).Namespace(v.key.namespace)
	}
	return v.clients.Dynamic.Resource(v.mapping.Resource)
}

// read reads the object itself.
func (v view) read(ctx context.Context, ref gate.Ref) (*unstructured.Unstructured, error) {
	return get(ctx, v.resource(), v.key, v.mapping.Resource, ref.Name)
}

// list reads all objects of the kind in the namespace.
func (v view) list(ctx context.Context) ([]*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list, err := v.resource().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, readError(err, v.key, v.mapping.Resource, "list")
	}
	all := make([]*unstructured.Unstructured, 0, len(list.Items))
	for n := range list.Items {
		all = append(all, &list.Items[n])
	}
	return all, nil
}

func get(ctx context.Context, from dynamic.ResourceInterface, key watchKey, resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	obj, err := from.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, readError(err, key, resource, "get")
	}
	unstructured.RemoveNestedField(obj.Object, "metadata", "managedFields")
	return obj, nil
}

// deniedRule finds in a refusal of RBAC whom it refuses what.
var deniedRule = regexp.MustCompile(`User "([^"]*)" cannot (\w+) resource "([^"]*)"`)

// readError turns an error of the API server into one of the gate package.
func readError(err error, key watchKey, resource schema.GroupVersionResource, verb string) error {
	switch {
	case apierrors.IsForbidden(err):
		denied := &gate.ForbiddenError{Verb: verb, Group: resource.Group, Resource: resource.Resource, Namespace: key.namespace}
		if !key.id.IsOperator() {
			denied.User = key.id.String()
		}
		if m := deniedRule.FindStringSubmatch(err.Error()); m != nil {
			denied.User, denied.Verb, denied.Resource = m[1], m[2], m[3]
		}
		return denied
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return &gate.NoKindError{GroupVersionKind: key.kind}
	case apierrors.IsNotFound(err):
		return gate.ErrNotFound
	default:
		return err
	}
}
