// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	helmtime "helm.sh/helm/v3/pkg/time"
	"k8s.io/apimachinery/pkg/types"

	"github.com/chartgate/chartgate/internal/identity"
)

// Driver stores the releases of one namespace as one identity. It implements
// Helm's storage driver, and is safe for concurrent use. Manifest, chart, config
// and hooks' texts of the releases it returns are shared and must only be read.
type Driver struct {
	store     *Store
	ctx       context.Context
	clients   *identity.Clients
	view      *view
	namespace string
	options   Options

	mu     sync.Mutex
	listed map[string]bool // releases that were listed for lack of a watch
}

var _ driver.Driver = (*Driver)(nil)

// Name implements Helm's driver: it is Helm's own name of storage in Secrets.
func (d *Driver) Name() string { return driver.SecretsDriverName }

// key is the full name of a Secret of the driver's namespace.
func (d *Driver) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: d.namespace, Name: name}
}

// Records returns what the labels say of all stored revisions of a release,
// oldest first; none is no error. No request is made while the watch stands.
// Secrets whose labels do not fit their names are passed over.
func (d *Driver) Records(name string) ([]Record, error) {
	if name == "" {
		return nil, errors.New("stored releases: no release name given")
	}
	objects, err := d.objects(name)
	if err != nil {
		return nil, err
	}
	return recordsOf(objects), nil
}

// objects returns the Secrets of a release, or of all if it has no name.
func (d *Driver) objects(release string) ([]*object, error) {
	of := d.key(release)
	d.store.mu.Lock()
	if d.view.usable() {
		defer d.store.mu.Unlock()
		return d.view.list(of), nil
	}
	d.store.mu.Unlock()

	found, version, err := d.requestList(release)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.listed[release] = true
	d.mu.Unlock()
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	if !d.view.usable() {
		d.view.merge(of, found, version)
	}
	return d.view.list(of), nil
}

// Load returns the release of a record, from memory if it was read or written
// before. It is the newest state if the record is out of date, and
// driver.ErrReleaseNotFound if it is gone.
func (d *Driver) Load(r Record) (*helmrelease.Release, error) {
	if rel := d.store.cache.get(contentKey{r.UID, r.ResourceVersion}); rel != nil {
		return share(rel, r.Labels), nil
	}
	return d.load(r.Key)
}

// load reads a release from the API server.
func (d *Driver) load(key string) (*helmrelease.Release, error) {
	secret, err := d.requestSecret(key)
	if err != nil {
		return nil, err
	}
	o := objectOf(secret)
	rec, err := recordOf(o)
	if err != nil {
		return nil, err
	}
	rel, size, err := d.decodeSecret(secret)
	if err == nil {
		err = rec.check(rel, d.namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("release Secret %s: %w", o.key, err)
	}
	if rel.Namespace == "" {
		rel.Namespace = d.namespace
	}
	d.store.cache.put(&content{key: contentKey{o.uid, o.version}, release: rel, size: size})
	return share(rel, o.labels), nil
}

// check tells whether a Secret's content is the release that its name promises.
func (r Record) check(rel *helmrelease.Release, namespace string) error {
	if rel.Name != r.Name || rel.Version != r.Version || rel.Namespace != "" && rel.Namespace != namespace {
		return errors.New("its content is a release of another name, revision or namespace")
	}
	return nil
}

// Get implements Helm's driver. It returns driver.ErrReleaseNotFound for what is not stored.
func (d *Driver) Get(key string) (*helmrelease.Release, error) {
	o, sure := d.view.find(d.key(key))
	switch {
	case !sure:
		return d.load(key)
	case o == nil:
		return nil, driver.ErrReleaseNotFound
	}
	rec, err := recordOf(o)
	if err != nil {
		return nil, err
	}
	return d.Load(rec)
}

// List implements Helm's driver: all releases of the namespace for which filter
// is true. What cannot be decoded is logged and left out, as Helm does.
func (d *Driver) List(filter func(*helmrelease.Release) bool) ([]*helmrelease.Release, error) {
	objects, err := d.objects("")
	if err != nil {
		return nil, err
	}
	var out []*helmrelease.Release
	for _, rec := range recordsOf(objects) {
		rel, err := d.Load(rec)
		if errors.Is(err, driver.ErrReleaseNotFound) {
			continue
		}
		if err != nil {
			if d.ctx.Err() != nil {
				return nil, err
			}
			d.store.log.Info("Stored release is left out of a list", "error", err.Error())
			continue
		}
		if filter(rel) {
			out = append(out, rel)
		}
	}
	return out, nil
}

// Query implements Helm's driver: the releases whose Secrets have the labels,
// oldest first, or driver.ErrReleaseNotFound. Complete are the newest of each
// name and all that are deployed; of the others only name, namespace, version,
// status, time and labels are there (Get returns all of it).
func (d *Driver) Query(labels map[string]string) ([]*helmrelease.Release, error) {
	objects, err := d.objects(labels[labelName])
	if err != nil {
		return nil, err
	}
	var records []Record
	for _, rec := range recordsOf(objects) {
		if hasLabels(rec.Labels, labels) {
			records = append(records, rec)
		}
	}
	// Backwards, so that the next older one counts as the newest when that has just gone.
	newest := map[string]bool{}
	out := make([]*helmrelease.Release, len(records))
	n := len(records)
	for _, rec := range slices.Backward(records) {
		rel := d.outline(rec)
		if !newest[rec.Name] || rec.Status == helmrelease.StatusDeployed {
			if rel, err = d.Load(rec); errors.Is(err, driver.ErrReleaseNotFound) {
				continue
			} else if err != nil {
				return nil, err
			}
		}
		newest[rec.Name] = true
		n--
		out[n] = rel
	}
	if out = out[n:]; len(out) == 0 {
		return nil, driver.ErrReleaseNotFound
	}
	return out, nil
}

func hasLabels(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// outline is a release as far as its record tells.
func (d *Driver) outline(r Record) *helmrelease.Release {
	return &helmrelease.Release{
		Name:      r.Name,
		Namespace: d.namespace,
		Version:   r.Version,
		Info:      &helmrelease.Info{Status: r.Status, LastDeployed: helmtime.Time{Time: r.Modified}},
		Labels:    releaseLabels(r.Labels),
	}
}

// isOutline tells whether a release was made by outline: storing it would wipe out the rest.
func isOutline(rel *helmrelease.Release) bool {
	return rel.Chart == nil && rel.Manifest == "" && rel.Config == nil && rel.Hooks == nil && rel.Info.FirstDeployed.IsZero()
}
