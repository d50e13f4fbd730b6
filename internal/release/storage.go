// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"strconv"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/identity"
)

// newDriver returns the storage of releases in Secrets of the namespace, in
// Helm's own format, so that the helm CLI finds them.
func newDriver(clients *identity.Clients, namespace, owner string) driver.Driver {
	return &ownedDriver{
		Driver: driver.NewSecrets(clients.Kubernetes.CoreV1().Secrets(namespace)),
		owner:  owner,
	}
}

// ownedDriver stores releases slim, and labeled with who wrote which revision.
// Helm copies labels on upgrade and rollback, so a revision label that differs
// from the release's version shows that somebody else wrote it.
type ownedDriver struct {
	driver.Driver
	owner string
}

// Create implements driver.Creator.
func (d *ownedDriver) Create(key string, rel *helmrelease.Release) error {
	if rel.Labels == nil {
		rel.Labels = map[string]string{}
	}
	rel.Labels[v1alpha1.LabelRevision] = strconv.Itoa(rel.Version)
	rel.Labels[v1alpha1.LabelOwner] = d.owner
	return d.Driver.Create(key, slim(rel))
}

// Update implements driver.Updator.
func (d *ownedDriver) Update(key string, rel *helmrelease.Release) error {
	return d.Driver.Update(key, slim(rel))
}

// slim returns the release without what nobody needs to have stored.
func slim(rel *helmrelease.Release) *helmrelease.Release {
	out := *rel
	out.Chart = slimChart(rel.Chart)
	return &out
}
