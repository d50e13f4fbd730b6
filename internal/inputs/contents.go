// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/identity"
)

// Contents reads what Secrets and ConfigMaps of an owner's namespace hold: those
// that its chart is found with, and those that its values come from. Gates are
// never given it. What it reads is watched like what gates look at, so a change
// wakes the owner, and an object that did not change is not requested again.
type Contents struct{ reader reader }

// Contents returns a reader of contents for the owner, which is served as the
// identity. It reads as that identity, in the namespace of the owner and in no other.
func (i *Inputs) Contents(id identity.Identity, owner dependents.Owner) Contents {
	return Contents{reader{inputs: i, id: id, owner: owner, contents: true}}
}

var (
	secretKind    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	configMapKind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
)

// Secret returns the data of a Secret. The error is one that
// apierrors.IsNotFound knows where it does not exist, and a *gate.ForbiddenError
// where the identity may not read it.
func (c Contents) Secret(ctx context.Context, name string) (map[string][]byte, error) {
	obj, err := c.read(ctx, secretKind, name)
	if err != nil {
		return nil, err
	}
	return c.decoded(obj, "data")
}

// ConfigMap returns the data of a ConfigMap, binary data included. Its errors are those of Secret.
func (c Contents) ConfigMap(ctx context.Context, name string) (map[string][]byte, error) {
	obj, err := c.read(ctx, configMapKind, name)
	if err != nil {
		return nil, err
	}
	out, err := c.decoded(obj, "binaryData")
	if err != nil {
		return nil, err
	}
	texts, _, _ := unstructured.NestedStringMap(obj.Object, "data")
	for key, text := range texts {
		out[key] = []byte(text)
	}
	return out, nil
}

// read returns the object in the state that its watch last told of, or a newer one.
func (c Contents) read(ctx context.Context, kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	ref := gate.Ref{GroupVersionKind: kind, Namespace: c.reader.owner.Namespace, Name: name}
	v, err := c.reader.view(ctx, ref)
	if err != nil {
		return nil, err
	}
	var obj *unstructured.Unstructured
	if v.store == nil {
		obj, err = v.read(ctx, ref)
	} else if stored, missing := v.stored(ref); missing != nil {
		err = missing
	} else {
		obj, err = v.watch.object(ctx, name, stored.GetResourceVersion())
	}
	if errors.Is(err, gate.ErrNotFound) {
		return nil, apierrors.NewNotFound(v.mapping.Resource.GroupResource(), name)
	}
	return obj, err
}

// decoded returns a field of base64 texts. Its error tells nothing of them.
func (c Contents) decoded(obj *unstructured.Unstructured, field string) (map[string][]byte, error) {
	encoded, _, _ := unstructured.NestedStringMap(obj.Object, field)
	out := make(map[string][]byte, len(encoded))
	for key, text := range encoded {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("key %s of %s %s is not base64", key, obj.GetKind(), obj.GetName())
		}
		out[key] = data
	}
	return out, nil
}
