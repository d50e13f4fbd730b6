// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// secretType is the type of Helm 3's Secrets.
const secretType corev1.SecretType = "helm.sh/release.v1" //nolint:gosec // a type, no credentials

// ownLabels are those that only the release itself brings: they are not kept on
// a Secret that is written again without them.
var ownLabels = []string{
	v1alpha1.LabelDigest, v1alpha1.LabelRevision, v1alpha1.LabelOwner, v1alpha1.LabelHolder, LabelParts,
	labelName, labelOwner, labelStatus, labelVersion, labelModifiedAt,
}

// Create implements Helm's driver. It labels the release, also the one passed,
// with its revision and owner. The error is driver.ErrReleaseExists when the
// revision is stored already: of two writers one wins.
func (d *Driver) Create(key string, rel *helmrelease.Release) error {
	labels := maps.Clone(rel.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.LabelRevision] = strconv.Itoa(rel.Version)
	if d.options.Owner != "" {
		labels[v1alpha1.LabelOwner] = d.options.Owner
	}
	rel.Labels = labels
	err := d.write(key, rel, nil, d.create)
	if apierrors.IsAlreadyExists(err) {
		return driver.ErrReleaseExists
	}
	return err
}

// Update implements Helm's driver. It replaces the newest state that this store
// knows: if the Secret has changed since, the error is a conflict for
// apierrors.IsConflict. Labels that are neither ours nor Helm's stay,
// ownerReferences go: the finalizer of the owner does their work. The error is
// driver.ErrReleaseNotFound when the revision is not stored.
func (d *Driver) Update(key string, rel *helmrelease.Release) error {
	current, err := d.current(key)
	if err != nil {
		return err
	}
	err = d.write(key, rel, current, d.replace)
	switch {
	case apierrors.IsNotFound(err):
		d.view.forget(d.key(key))
		return driver.ErrReleaseNotFound
	case apierrors.IsConflict(err):
		d.view.forget(d.key(key))
	}
	return err
}

// current returns what is known of a stored revision; it asks only for what is not known.
func (d *Driver) current(key string) (*object, error) {
	if o, _ := d.view.find(d.key(key)); o != nil {
		return o, nil
	}
	return d.requestMetadata(key)
}

// write stores a release in place of the current Secret, or as a new one.
func (d *Driver) write(key string, rel *helmrelease.Release, current *object, send func(*corev1.Secret) (*object, error)) error {
	if key != keyOf(rel.Name, rel.Version) {
		return fmt.Errorf("release %s revision %d cannot be stored as Secret %s", rel.Name, rel.Version, d.key(key))
	}
	payload, err := encode(rel)
	if err != nil {
		return err
	}
	if current != nil && isOutline(rel) {
		return fmt.Errorf("release %s revision %d is an outline; read it before it is updated", rel.Name, rel.Version)
	}
	secret := d.secret(key, rel, current)
	done, err := d.fill(secret, rel, payload)
	if err == nil {
		var o *object
		if o, err = send(secret); err == nil {
			if current != nil { // an update that changes nothing keeps its version, so this comes first
				d.store.cache.drop(contentKey{current.uid, current.version})
			}
			d.store.cache.written(contentKey{o.uid, o.version}, payload)
		} else {
			err = fmt.Errorf("store release %s revision %d in Secret %s: %w", rel.Name, rel.Version, d.key(key), err)
		}
	}
	done()
	d.clean(rel.Name)
	return err
}

// secret returns the Secret of a release, without its content.
func (d *Driver) secret(key string, rel *helmrelease.Release, current *object) *corev1.Secret {
	now := strconv.FormatInt(time.Now().Unix(), 10)
	labels := map[string]string{}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: key, Namespace: d.namespace}, Type: secretType}
	if current != nil {
		maps.Copy(labels, current.labels)
		for _, l := range ownLabels {
			delete(labels, l)
		}
		secret.UID, secret.ResourceVersion, secret.Finalizers = current.uid, current.version, current.finalizers
	}
	maps.Copy(labels, rel.Labels)
	if current == nil {
		labels[labelCreatedAt] = now
	} else {
		labels[labelModifiedAt] = now
	}
	delete(labels, v1alpha1.LabelHolder)
	if d.options.Holder != "" && inProgress(rel.Info.Status) {
		labels[v1alpha1.LabelHolder] = d.options.Holder
	}
	labels[labelName] = rel.Name
	labels[labelOwner] = ownerHelm
	labels[labelStatus] = rel.Info.Status.String()
	labels[labelVersion] = strconv.Itoa(rel.Version)
	secret.Labels = labels
	return secret
}

func inProgress(status helmrelease.Status) bool {
	return status.IsPending() || status == helmrelease.StatusUninstalling
}

// Delete implements Helm's driver. It returns the release as far as that is
// known without a request; driver.ErrReleaseNotFound if it is not stored.
func (d *Driver) Delete(key string) (*helmrelease.Release, error) {
	o, err := d.current(key)
	if err != nil {
		return nil, err
	}
	rec, err := recordOf(o)
	if err != nil {
		return nil, err
	}
	rel := d.outline(rec)
	if full := d.store.cache.peek(contentKey{o.uid, o.version}); full != nil {
		rel = share(full, o.labels)
	}
	if err := d.delete(rec.Name, o); err != nil {
		return nil, err
	}
	return rel, nil
}

// Prune deletes a stored revision. It is no error if it is gone already.
func (d *Driver) Prune(r Record) error {
	err := d.delete(r.Name, &object{key: d.key(r.Key), uid: r.UID, version: r.ResourceVersion})
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	return err
}

// delete deletes a Secret and the parts of its content.
func (d *Driver) delete(release string, o *object) error {
	err := d.remove(o.key.Name, o.uid)
	switch {
	case apierrors.IsNotFound(err):
		d.view.forget(o.key)
		err = driver.ErrReleaseNotFound
	case err != nil:
		d.view.forget(o.key)
		return fmt.Errorf("delete Secret %s: %w", o.key, err)
	}
	d.store.cache.drop(contentKey{o.uid, o.version})
	d.clean(release)
	return err
}

// Relabel changes labels of a stored revision (nil removes one), and drops all
// its ownerReferences if asked to, by one request that carries no content. It
// returns the new record. The error is a conflict for apierrors.IsConflict when
// the Secret is no longer as the record says, driver.ErrReleaseNotFound when it is gone.
func (d *Driver) Relabel(r Record, labels map[string]*string, dropOwners bool) (Record, error) {
	metadata := map[string]any{"resourceVersion": r.ResourceVersion}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if dropOwners {
		metadata["ownerReferences"] = nil
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return Record{}, fmt.Errorf("labels of Secret %s: %w", d.key(r.Key), err)
	}
	o, err := d.patch(r.Key, body)
	switch {
	case apierrors.IsNotFound(err):
		d.view.forget(d.key(r.Key))
		return Record{}, driver.ErrReleaseNotFound
	case err != nil:
		d.view.forget(d.key(r.Key))
		return Record{}, fmt.Errorf("label Secret %s: %w", d.key(r.Key), err)
	}
	d.store.cache.rename(contentKey{r.UID, r.ResourceVersion}, contentKey{o.uid, o.version})
	return recordOf(o)
}
