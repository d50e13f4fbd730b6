// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// partType is the type of Secrets that hold a part of a release.
	partType corev1.SecretType = "chartgate.dev/release-part"
	// maxWhole and partSize, in bytes: a Secret's data is at most 1 MiB.
	maxWhole = 1_000_000
	partSize = 900_000
	// maxParts is more than content of the largest allowed size takes.
	maxParts = maxContent/partSize + 2
	// sumLength is how many hex digits of the checksum the names of parts have.
	sumLength = 10

	dataRelease = "release"
	dataParts   = "parts"
	dataPart    = "part"
)

// partIndex is what a release Secret has in place of content that is in parts.
type partIndex struct {
	// SHA256 of the content, in hex.
	SHA256 string `json:"sha256"`
	// Size of the content in bytes.
	Size int `json:"size"`
	// Names of the part Secrets, in order.
	Names []string `json:"names"`
}

func checksum(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// fill puts content into a Secret, or into part Secrets if it is too large;
// those are written at once, before the Secret that names them. The returned
// function says that the Secret is written; until then nobody cleans its parts away.
func (d *Driver) fill(secret *corev1.Secret, rel *helmrelease.Release, payload []byte) (done func(), err error) {
	if whole := toBase64(payload); len(whole) <= maxWhole {
		secret.Data = map[string][]byte{dataRelease: whole}
		return func() {}, nil
	}
	index := partIndex{SHA256: checksum(payload), Size: len(payload)}
	parts := slices.Collect(slices.Chunk(payload, partSize))
	prefix := secret.Name + "." + index.SHA256[:sumLength] + "."
	for i := range parts {
		index.Names = append(index.Names, prefix+strconv.Itoa(i))
	}
	done = d.hold(index.Names)
	for i, part := range parts {
		err := d.createPart(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name:      index.Names[i],
				Namespace: d.namespace,
				Labels:    map[string]string{labelOwner: ownerChartgate, labelName: rel.Name, labelVersion: strconv.Itoa(rel.Version)},
			},
			Type:      partType,
			Immutable: new(true),
			Data:      map[string][]byte{dataPart: part},
		})
		if err != nil {
			return done, fmt.Errorf("store part %d of %d of release %s revision %d in Secret %s: %w",
				i+1, len(parts), rel.Name, rel.Version, d.key(index.Names[i]), err)
		}
	}
	data, err := json.Marshal(index)
	if err != nil {
		return done, fmt.Errorf("parts of release %s revision %d: %w", rel.Name, rel.Version, err)
	}
	secret.Data = map[string][]byte{dataParts: data}
	secret.Labels[LabelParts] = index.SHA256[:sumLength]
	return done, nil
}

// createPart creates a part. One of the same name is of the same content if it
// is left from an earlier try; if somebody else put it there, it is replaced.
func (d *Driver) createPart(part *corev1.Secret) error {
	_, err := d.create(part)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there, err := d.requestSecret(part.Name)
	switch {
	case errors.Is(err, driver.ErrReleaseNotFound):
	case err != nil:
		return err
	case bytes.Equal(there.Data[dataPart], part.Data[dataPart]):
		return nil
	default:
		if err := d.remove(part.Name, there.UID); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	if _, err = d.create(part); apierrors.IsAlreadyExists(err) {
		return errors.New("somebody else keeps creating a Secret of that name")
	}
	return err
}

// hold keeps parts from being cleaned away until the returned function is called.
func (d *Driver) hold(names []string) func() {
	count := func(n int) {
		d.store.mu.Lock()
		defer d.store.mu.Unlock()
		for _, name := range names {
			if d.store.writing[d.key(name)] += n; d.store.writing[d.key(name)] == 0 {
				delete(d.store.writing, d.key(name))
			}
		}
	}
	count(1)
	return sync.OnceFunc(func() { count(-1) })
}

// clean deletes the parts of a release that no Secret names: those of content
// that was replaced, and what a killed writer left. What cannot be deleted is
// left to the next writer.
func (d *Driver) clean(release string) {
	d.mu.Lock()
	listed := d.listed[release]
	d.mu.Unlock()
	if d.ctx.Err() != nil {
		return
	}
	if !listed {
		if _, err := d.objects(release); err != nil { // lists if there is no watch
			d.store.log.Info("Left parts of a release cannot be looked for", "error", err.Error())
			return
		}
	}
	for _, o := range d.leftovers(release) {
		if err := d.remove(o.key.Name, o.uid); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			d.store.log.Info("Left part of a release cannot be deleted", "secret", o.key.String(), "error", err.Error())
		}
	}
}

// leftovers returns the parts of a release that no Secret names and no writer of this store is about to.
func (d *Driver) leftovers(release string) []*object {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	all := d.view.list(d.key(release))
	sums := map[string]string{}
	for _, o := range all {
		if o.labels[labelOwner] == ownerHelm {
			sums[o.key.Name] = o.labels[LabelParts]
		}
	}
	var out []*object
	for _, o := range all {
		index, sum, ok := splitPart(o.key)
		if !ok || o.labels[labelOwner] != ownerChartgate || d.store.writing[o.key] > 0 {
			continue
		}
		if name, _, ok := splitKey(index); ok && name == release && sums[index] != sum {
			out = append(out, o)
		}
	}
	return out
}

// splitPart returns the name of the Secret that a part belongs to, and the checksum in its name.
func splitPart(part types.NamespacedName) (index, sum string, ok bool) {
	rest, number, ok := cutLast(part.Name)
	if _, err := strconv.ParseUint(number, 10, 16); !ok || err != nil {
		return "", "", false
	}
	index, sum, ok = cutLast(rest)
	return index, sum, ok && len(sum) == sumLength
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// decodeSecret returns the release in a Secret, and about how many bytes of
// memory it takes. Parts are read from their own Secrets.
func (d *Driver) decodeSecret(secret *corev1.Secret) (*helmrelease.Release, int, error) {
	data, whole := secret.Data[dataRelease]
	index, split := secret.Data[dataParts]
	var payload []byte
	var err error
	switch {
	case whole:
		payload, err = fromBase64(data)
	case split:
		payload, err = d.assemble(secret.Name, index)
	default:
		err = errors.New("it has no content")
	}
	if err != nil {
		return nil, 0, err
	}
	return decode(payload)
}

// assemble reads the content that is in parts.
func (d *Driver) assemble(key string, data []byte) ([]byte, error) {
	var index partIndex
	if json.Unmarshal(data, &index) != nil {
		return nil, errors.New("its list of parts is not valid")
	}
	if len(index.Names) == 0 || len(index.Names) > maxParts || index.Size < 0 || index.Size > maxContent {
		return nil, errors.New("its list of parts is not of a possible size")
	}
	for _, name := range index.Names {
		if of, _, ok := splitPart(types.NamespacedName{Name: name}); !ok || of != key {
			return nil, errors.New("its list of parts names a Secret that is no part of it")
		}
	}
	var payload []byte
	for i, name := range index.Names {
		part, err := d.requestSecret(name)
		switch {
		case errors.Is(err, driver.ErrReleaseNotFound):
			return nil, fmt.Errorf("part %d of %d of its content is missing: there is no Secret %s", i+1, len(index.Names), d.key(name))
		case err != nil:
			return nil, fmt.Errorf("part %d of %d of its content: %w", i+1, len(index.Names), err)
		}
		payload = append(payload, part.Data[dataPart]...)
	}
	if len(payload) != index.Size || checksum(payload) != index.SHA256 {
		return nil, errors.New("its parts do not have the checksum that it says")
	}
	return payload, nil
}
