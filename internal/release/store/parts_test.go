// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/test/controlplane"
)

// largeRelease has a manifest that hardly compresses.
func largeRelease(ns string, version, bytes int) *helmrelease.Release {
	rel := makeRelease("big", ns, version, helmrelease.StatusPendingInstall)
	random := rand.NewChaCha8([32]byte{byte(version)})
	raw := make([]byte, bytes)
	_, _ = random.Read(raw)
	rel.Manifest = hex.EncodeToString(raw)
	return rel
}

func TestLargeReleaseIsStoredInParts(t *testing.T) {
	cluster := controlplane.Shared(t)
	ns := cluster.Namespace(t)
	o := newOperator(t, cluster.Config(), "parts/1")
	d := o.driver(t, ns, Options{Owner: "x"})
	rel := largeRelease(ns, 1, 3<<19)
	must(t, d.Create(keyOf("big", 1), rel))
	created := partsIn(t, ns)
	if len(created) < 2 {
		t.Fatalf("got %d parts, want more", len(created))
	}
	for _, p := range created {
		if p.Type != partType || p.Immutable == nil || !*p.Immutable || !strings.HasPrefix(p.Name, keyOf("big", 1)+".") || p.Labels["version"] != "1" {
			t.Errorf("part %s of type %s with labels %v", p.Name, p.Type, p.Labels)
		}
	}
	reader := newOperator(t, cluster.Config(), "parts/2")
	got, err := reader.driver(t, ns, Options{}).Get(keyOf("big", 1))
	must(t, err)
	if got.Manifest != rel.Manifest {
		t.Error("another manifest came back")
	}
	if _, ok := got.Labels[LabelParts]; ok {
		t.Error("the label of the parts belongs to the Secret, not to the release")
	}

	rel.SetStatus(helmrelease.StatusDeployed, "done")
	must(t, d.Update(keyOf("big", 1), rel))
	if now := partsIn(t, ns); len(now) != len(created) || now[0].Name == created[0].Name {
		t.Errorf("%d parts after an update, want %d new ones", len(now), len(created))
	}
	rel.Manifest = "small: true\n"
	must(t, d.Update(keyOf("big", 1), rel))
	if now := partsIn(t, ns); len(now) != 0 {
		t.Errorf("%d parts of a release that has become small", len(now))
	}
	must(t, d.Create(keyOf("big", 2), largeRelease(ns, 2, 3<<19)))
	must(t, d.Create(keyOf("big", 3), largeRelease(ns, 3, 3<<19)))
	if _, err := d.Delete(keyOf("big", 2)); err != nil {
		t.Error(err)
	}
	if now := partsIn(t, ns); len(now) != len(created) || now[0].Labels["version"] != "3" {
		t.Errorf("%d parts, want those of revision 3", len(now))
	}
	if _, err := d.Get(keyOf("big", 3)); err != nil {
		t.Error(err)
	}
	records, err := d.Records("big")
	must(t, err)
	must(t, d.Prune(records[len(records)-1]))
	if now := partsIn(t, ns); len(now) != 0 {
		t.Errorf("%d parts after all were deleted", len(now))
	}
	if n := o.wokenCount(ns + "/big"); n != 0 {
		t.Errorf("own parts woke %d times", n)
	}
}

func TestPartsOfKilledWritersAreCleanedAway(t *testing.T) {
	cluster := controlplane.Shared(t)
	ns := cluster.Namespace(t)
	killed := newOperator(t, cluster.Config(), "killed/1").driver(t, ns, Options{})
	rel := largeRelease(ns, 1, 3<<19)
	payload, err := encode(rel)
	must(t, err)
	secret := killed.secret(keyOf("big", 1), rel, nil)
	_, err = killed.fill(secret, rel, payload) // and no index
	must(t, err)
	left := len(partsIn(t, ns))

	next := newOperator(t, cluster.Config(), "next/1").driver(t, ns, Options{})
	if r, err := next.Records("big"); err != nil || len(r) != 0 {
		t.Errorf("got %v, error %v", r, err)
	}
	// The same content again uses what is there; a forged part is replaced.
	forged := fmt.Sprintf("%s.%s.0", keyOf("big", 1), checksum(payload)[:sumLength])
	must(t, admin(t).CoreV1().Secrets(ns).Delete(t.Context(), forged, metav1.DeleteOptions{}))
	_, err = admin(t).CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: forged},
		StringData: map[string]string{dataPart: "x"}}, metav1.CreateOptions{})
	must(t, err)
	must(t, next.Create(keyOf("big", 1), rel))
	fresh := newOperator(t, cluster.Config(), "fresh/1").driver(t, ns, Options{})
	if _, err := fresh.Get(keyOf("big", 1)); err != nil {
		t.Error(err)
	}

	_, err = killed.fill(killed.secret(keyOf("big", 2), largeRelease(ns, 2, 3<<19), nil), largeRelease(ns, 2, 3<<19), append(payload, 0))
	must(t, err)
	eventually(t, "the parts of the killed writer", func() error {
		if all, err := next.objects("big"); err != nil || len(all) != 1+2*left {
			return fmt.Errorf("%d Secrets: %w", len(all), errNotYet)
		}
		return nil
	})
	must(t, next.Create(keyOf("big", 3), makeRelease("big", ns, 3, helmrelease.StatusDeployed)))
	if now := partsIn(t, ns); len(now) != left {
		t.Errorf("%d parts, want the %d of revision 1", len(now), left)
	}

	parts := partsIn(t, ns)
	must(t, admin(t).CoreV1().Secrets(ns).Delete(t.Context(), parts[1].Name, metav1.DeleteOptions{}))
	late := newOperator(t, cluster.Config(), "late/1").driver(t, ns, Options{})
	if _, err := late.Get(keyOf("big", 1)); err == nil || errors.Is(err, driver.ErrReleaseNotFound) ||
		!strings.Contains(err.Error(), parts[1].Name) || !strings.Contains(err.Error(), ns+"/"+keyOf("big", 1)+":") {
		t.Errorf("a missing part gives %v, want an error that names both Secrets", err)
	}
}
