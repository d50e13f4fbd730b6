// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"fmt"

	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// acceptMetadata asks for an object's metadata instead of all of it.
const acceptMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// secretEncoder writes Secrets as protobuf, which carries their data as it is.
var secretEncoder = scheme.Codecs.WithoutConversion().EncoderForVersion(
	protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), corev1.SchemeGroupVersion)

// requestList lists the metadata of a release's Secrets, of all in the
// namespace if it has no name, and says as of which version.
func (d *Driver) requestList(release string) ([]*object, string, error) {
	options := metav1.ListOptions{LabelSelector: selector}
	if release != "" {
		if len(validation.IsValidLabelValue(release)) > 0 {
			return nil, "", fmt.Errorf("%q cannot be a release name", release)
		}
		options.LabelSelector += "," + labels.Set{labelName: release}.String()
	}
	list, err := d.clients.Metadata.Resource(secrets).Namespace(d.namespace).List(d.ctx, options)
	if err != nil {
		return nil, "", fmt.Errorf("list the Secrets of release %s: %w", d.key(release), err)
	}
	objects := make([]*object, 0, len(list.Items))
	for i := range list.Items {
		objects = append(objects, objectOf(&list.Items[i]))
	}
	return objects, list.ResourceVersion, nil
}

// requestSecret reads a whole Secret; driver.ErrReleaseNotFound if there is none.
func (d *Driver) requestSecret(name string) (*corev1.Secret, error) {
	var secret corev1.Secret
	err := d.clients.Kubernetes.CoreV1().RESTClient().Get().
		Namespace(d.namespace).Resource(secrets.Resource).Name(name).
		SetHeader("Accept", runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON).
		Do(d.ctx).Into(&secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, driver.ErrReleaseNotFound
	case err != nil:
		return nil, fmt.Errorf("read Secret %s: %w", d.key(name), err)
	}
	return &secret, nil
}

// requestMetadata reads a Secret's metadata; driver.ErrReleaseNotFound if there is none.
func (d *Driver) requestMetadata(name string) (*object, error) {
	m, err := d.clients.Metadata.Resource(secrets).Namespace(d.namespace).Get(d.ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, driver.ErrReleaseNotFound
	case err != nil:
		return nil, fmt.Errorf("read the metadata of Secret %s: %w", d.key(name), err)
	}
	return objectOf(m), nil
}

// send creates or replaces a Secret, and has all views know.
func (d *Driver) send(request *rest.Request, secret *corev1.Secret) (*object, error) {
	body, err := runtime.Encode(secretEncoder, secret)
	if err != nil {
		return nil, fmt.Errorf("cannot be encoded: %T", err)
	}
	key := d.key(secret.Name)
	d.store.begin(key)
	o, err := metadataOf(request.Namespace(d.namespace).Resource(secrets.Resource).
		SetHeader("Content-Type", runtime.ContentTypeProtobuf).
		SetHeader("Accept", acceptMetadata).Body(body).Do(d.ctx))
	d.store.finish(key, d.view, o, "")
	return o, err
}

func metadataOf(result rest.Result) (*object, error) {
	if err := result.Error(); err != nil {
		return nil, err
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, err
	}
	var m metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("the API server's answer is not an object: %T", err)
	}
	return objectOf(&m), nil
}

func (d *Driver) create(secret *corev1.Secret) (*object, error) {
	return d.send(d.clients.Kubernetes.CoreV1().RESTClient().Post(), secret)
}

func (d *Driver) replace(secret *corev1.Secret) (*object, error) {
	return d.send(d.clients.Kubernetes.CoreV1().RESTClient().Put().Name(secret.Name), secret)
}

// remove deletes a Secret, but no other that got its name, and has all views know.
func (d *Driver) remove(name string, uid types.UID) error {
	key := d.key(name)
	d.store.begin(key)
	err := d.clients.Kubernetes.CoreV1().Secrets(d.namespace).Delete(d.ctx, name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil {
		uid = ""
	}
	d.store.finish(key, d.view, nil, uid)
	return err
}

// patch changes a Secret's metadata by a merge patch, and has all views know.
func (d *Driver) patch(name string, body []byte) (*object, error) {
	key := d.key(name)
	d.store.begin(key)
	m, err := d.clients.Metadata.Resource(secrets).Namespace(d.namespace).
		Patch(d.ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	var o *object
	if err == nil {
		o = objectOf(m)
	}
	d.store.finish(key, d.view, o, "")
	return o, err
}
