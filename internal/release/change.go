// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"strconv"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/identity"
)

// Annotations of operator-sdk's Helm operators that are not options of
// helm-operator-plugins' own action client.
const (
	annotationRollbackForce = "helm.sdk.operatorframework.io/rollback-force"
	annotationUninstallWait = "helm.sdk.operatorframework.io/uninstall-wait"
)

// Settings of one release that don't reach its objects, and so are no part of the digest.
type Settings struct {
	// Timeout of one Helm action, its hooks included.
	Timeout time.Duration
	// MaxHistory is the number of revisions kept; 0 keeps all.
	MaxHistory int
	// DisableHooks of the chart.
	DisableHooks bool
	// Drift says what is done about objects that somebody else changed. Empty: they are put back.
	Drift v1alpha1.DriftMode
	// Adopt takes over a release of the name that has no owner yet.
	Adopt bool
	// CreateNamespace makes the release's namespace where it is missing. It is never deleted with the release.
	CreateNamespace bool
}

// Change is what a release should become: one snapshot of a custom resource,
// its chart and its values. Nothing in it may be modified once it is made.
type Change struct {
	// Owner is the snapshot of the custom resource that the release belongs to.
	Owner *unstructured.Unstructured
	// Identity that reads and writes the release and its objects.
	Identity identity.Identity
	// Name of the Helm release.
	Name string
	// Namespace that stores the release, and where its objects go unless they say otherwise.
	Namespace string
	// Chart to release; shared between changes. Nil where the release is only to be uninstalled.
	Chart *chart.Chart
	// ChartDigest identifies the chart's files.
	ChartDigest string
	// Values as the user gave them: not coalesced with the chart's defaults.
	Values map[string]any
	// Secret names the values that are from Secrets, each by its keys from the top on down.
	Secret [][]string
	// Settings of the release.
	Settings Settings
	// Written lists the revisions that Chartgate wrote, with the digests of their payloads: what is
	// stored and not among them is not trusted beyond the owner's namespace.
	Written []v1alpha1.HistoryEntry
	// KeepRollback says that a helm rollback by a user, if there is one, is left as it is.
	KeepRollback bool
	// Scale is a number of replicas that is set at once, as no part of the change. Nil for none.
	Scale *Scale
	// Data says how to treat what the release keeps data in. Nil for releases without.
	Data *Data

	digest string
}

// WithDigest returns the change with its digest worked out.
func (c Change) WithDigest() (Change, error) {
	d, err := changeDigest(c.ChartDigest, c.Name, c.Namespace, c.Scale.without(c.Values))
	if err != nil {
		return c, err
	}
	c.digest = d
	return c, nil
}

// Digest of the change in hex: equal digests mean equal releases. Empty until WithDigest.
func (c Change) Digest() string { return c.digest }

// owner is who the release belongs to.
func (c Change) owner() dependents.Owner {
	return dependents.OwnerOf(c.Owner.GroupVersionKind().GroupKind(), c.Owner)
}

// ownerLabel marks the release as the owner's.
func (c Change) ownerLabel() string { return OwnerLabel(c.owner(), c.Namespace) }

// annotated tells whether the owner carries the annotation with a true value.
func (c Change) annotated(name string) bool {
	on, err := strconv.ParseBool(c.Owner.GetAnnotations()[name])
	return err == nil && on
}
