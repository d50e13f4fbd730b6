// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/identity"
	"github.com/chartgate/chartgate/test/controlplane"
)

func TestHelmReadsOursAndWeReadHelms(t *testing.T) {
	cluster := controlplane.Shared(t)
	ns := cluster.Namespace(t)
	d := newOperator(t, cluster.Config(), "both/1").driver(t, ns, Options{Owner: "guestbook.apps", Holder: "me"})
	helm := storage.Init(driver.NewSecrets(admin(t).CoreV1().Secrets(ns)))

	rel := makeRelease("ours", ns, 1, helmrelease.StatusPendingInstall)
	must(t, d.Create(keyOf("ours", 1), rel))
	if rel.Labels[v1alpha1.LabelRevision] != "1" || rel.Labels[v1alpha1.LabelOwner] != "guestbook.apps" || rel.Labels["team"] != "blue" {
		t.Errorf("the release passed has labels %v", rel.Labels)
	}
	got, err := helm.Last("ours")
	must(t, err)
	if got.Manifest != rel.Manifest || got.Labels["createdAt"] == "" || got.Labels["status"] != "pending-install" ||
		got.Labels[v1alpha1.LabelHolder] != "me" || len(got.Chart.Templates) != 0 {
		t.Errorf("Helm reads %+v", got)
	}
	rel.SetStatus(helmrelease.StatusDeployed, "done")
	must(t, d.Update(keyOf("ours", 1), rel))
	got, err = helm.Deployed("ours")
	must(t, err)
	if _, held := got.Labels[v1alpha1.LabelHolder]; held || got.Labels["modifiedAt"] == "" || got.Info.Status != helmrelease.StatusDeployed {
		t.Errorf("Helm reads labels %v", got.Labels)
	}
	if err := d.Create(keyOf("ours", 1), rel); !errors.Is(err, driver.ErrReleaseExists) {
		t.Errorf("a second creation gives %v", err)
	}

	theirs := makeRelease("theirs", ns, 1, helmrelease.StatusDeployed)
	must(t, helm.Create(theirs))
	eventually(t, "Helm's release", func() error { _, err := d.Get(keyOf("theirs", 1)); return err })
	got, err = d.Get(keyOf("theirs", 1))
	must(t, err)
	if got.Manifest != theirs.Manifest || len(got.Labels) != 1 || got.Labels["team"] != "blue" || len(got.Chart.Templates) != 1 {
		t.Errorf("we read %+v", got)
	}
	all, err := d.List(func(r *helmrelease.Release) bool { return r.Manifest != "" })
	must(t, err)
	if len(all) != 2 {
		t.Errorf("got %d releases, want 2", len(all))
	}
	if _, err := helm.Delete("ours", 1); err != nil {
		t.Error(err)
	}
	eventually(t, "Helm's deletion", func() error {
		if _, err := d.Get(keyOf("ours", 1)); !errors.Is(err, driver.ErrReleaseNotFound) {
			return fmt.Errorf("still there: %w", errNotYet)
		}
		return nil
	})
}

func TestEveryWriteIsReadAtOnceWithoutRequests(t *testing.T) {
	cluster := controlplane.Shared(t)
	ns := cluster.Namespace(t)
	o := newOperator(t, cluster.Config(), "quick/1")
	begin := time.Now()
	o.driver(t, ns, Options{})
	started := o.requests(t, begin, "get", "list")
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			d, err := o.Driver(t.Context(), identity.Operator, ns, Options{Owner: "x"})
			if err != nil {
				t.Error(err)
				return
			}
			releases := storage.Init(d)
			name := fmt.Sprintf("r%d", w)
			for v := 1; v <= 8; v++ {
				rel := makeRelease(name, ns, v, helmrelease.StatusPendingUpgrade)
				if err := releases.Create(rel); err != nil {
					t.Error(err)
				}
				for range 3 {
					rel.SetStatus(helmrelease.StatusDeployed, "done")
					if err := releases.Update(rel); err != nil {
						t.Error(err)
					}
				}
				last, err := releases.Last(name)
				if err != nil || last.Version != v || last.Info.Status != helmrelease.StatusDeployed || last.Manifest != rel.Manifest {
					t.Errorf("after writing revision %d the last is %+v, error %v", v, last, err)
				}
				rel.SetStatus(helmrelease.StatusSuperseded, "old")
				if err := releases.Update(rel); err != nil {
					t.Error(err)
				}
				records, err := d.Records(name)
				if err != nil || len(records) != min(v, 4) || records[len(records)-1].Status != helmrelease.StatusSuperseded {
					t.Errorf("after writing revision %d the records are %+v, error %v", v, records, err)
				}
				if v >= 4 {
					if err := d.Prune(records[0]); err != nil {
						t.Error(err)
					}
					if err := d.Prune(records[0]); err != nil {
						t.Errorf("pruning again gives %v", err)
					}
				}
			}
			rels, err := releases.History(name)
			if err != nil || len(rels) != 3 || rels[0].Version != 6 || rels[0].Manifest != "" || rels[2].Manifest == "" {
				t.Errorf("history %+v, error %v", rels, err)
			}
			if full, err := releases.Get(name, 6); err != nil || full.Manifest == "" {
				t.Errorf("revision 6 is %+v, error %v", full, err)
			}
			if err := releases.Update(rels[0]); err == nil {
				t.Error("an outline took the place of a release")
			}
		})
	}
	wg.Wait()
	time.Sleep(300 * time.Millisecond)
	if n := o.requests(t, begin, "get", "list") - started; n != 0 {
		t.Errorf("%d reads of Secrets, want none", n)
	}
	if len(o.woken) != 0 {
		t.Errorf("own writes woke %v", o.woken)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Store.mu.Lock()
	defer o.Store.mu.Unlock()
	if len(o.flights) != 0 || len(o.writing) != 0 {
		t.Errorf("%d requests in flight", len(o.flights))
	}
	for _, v := range o.views {
		if len(v.gone) != 0 {
			t.Errorf("%d tombstones are left", len(v.gone))
		}
	}
}

func TestRestartReadsEachReleaseOnce(t *testing.T) {
	cluster := controlplane.Shared(t)
	ns := cluster.Namespace(t)
	writer := newOperator(t, cluster.Config(), "before/1").driver(t, ns, Options{})
	for v := range 3 {
		must(t, writer.Create(keyOf("a", v+1), makeRelease("a", ns, v+1, helmrelease.StatusSuperseded)))
	}
	begin := time.Now()
	o := newOperator(t, cluster.Config(), "after/1", ns)
	d := o.driver(t, ns, Options{})
	for range 5 {
		rels, err := d.Query(map[string]string{"name": "a", "owner": "helm"})
		must(t, err)
		if len(rels) != 3 || rels[2].Manifest == "" {
			t.Errorf("got %+v", rels)
		}
		if _, err := d.Query(map[string]string{"name": "a", "status": "deployed"}); !errors.Is(err, driver.ErrReleaseNotFound) {
			t.Errorf("got %v, want not found", err)
		}
	}
	if n := o.requests(t, begin, "get"); n != 1 {
		t.Errorf("%d reads, want 1", n)
	}
	records, err := d.Records("a")
	must(t, err)
	value := "red"
	changed, err := d.Relabel(records[2], map[string]*string{"team": &value, v1alpha1.LabelRevision: nil}, true)
	must(t, err)
	rel, err := d.Load(changed)
	must(t, err)
	if rel.Labels["team"] != "red" || rel.Labels[v1alpha1.LabelRevision] != "" || rel.Manifest == "" {
		t.Errorf("got %+v", rel)
	}
	if n := o.requests(t, begin, "get"); n != 1 {
		t.Errorf("%d reads after a change of labels, want 1", n)
	}
	if _, err := d.Relabel(records[2], map[string]*string{"team": nil}, false); !apierrors.IsConflict(err) {
		t.Errorf("an outdated record gives %v, want a conflict", err)
	}
}

func TestOfTwoWritersOneWins(t *testing.T) {
	cluster := controlplane.Shared(t)
	ns := cluster.Namespace(t)
	first := newOperator(t, cluster.Config(), "first/1")
	stale := newOperator(t, cluster.Config(), "stale/1")
	a, b := first.driver(t, ns, Options{}), stale.driver(t, ns, Options{})
	rel := makeRelease("a", ns, 1, helmrelease.StatusPendingInstall)
	must(t, a.Create(keyOf("a", 1), rel))
	if err := b.Create(keyOf("a", 1), makeRelease("a", ns, 1, helmrelease.StatusPendingInstall)); !errors.Is(err, driver.ErrReleaseExists) {
		t.Errorf("a second creation gives %v", err)
	}
	eventually(t, "the other's release", func() error { _, err := b.Get(keyOf("a", 1)); return err })

	b.view.cancel() // its watch stands still
	time.Sleep(200 * time.Millisecond)
	secrets := admin(t).CoreV1().Secrets(ns)
	_, err := secrets.Patch(t.Context(), keyOf("a", 1), types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"foreign":"label"},"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"1"}]}}`), metav1.PatchOptions{})
	must(t, err)
	eventually(t, "the foreign label", func() error {
		if r, err := a.Records("a"); err != nil || r[0].Labels["foreign"] == "" || len(r[0].OwnerReferences) != 1 {
			return errNotYet
		}
		return nil
	})
	if n := first.wokenCount(ns + "/a"); n != 1 {
		t.Errorf("a foreign change woke %d times, want once", n)
	}
	rel.SetStatus(helmrelease.StatusDeployed, "done")
	must(t, a.Update(keyOf("a", 1), rel))
	secret, err := secrets.Get(t.Context(), keyOf("a", 1), metav1.GetOptions{})
	must(t, err)
	if secret.Labels["foreign"] != "label" || len(secret.OwnerReferences) != 0 || secret.Type != "helm.sh/release.v1" {
		t.Errorf("after an update: labels %v, owners %v", secret.Labels, secret.OwnerReferences)
	}
	if err := b.Update(keyOf("a", 1), rel); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), ns) {
		t.Errorf("the stale writer gets %v, want a conflict", err)
	}

	must(t, secrets.Delete(t.Context(), keyOf("a", 1), metav1.DeleteOptions{}))
	eventually(t, "the foreign deletion", func() error {
		if first.wokenCount(ns+"/a") < 2 {
			return errNotYet
		}
		return nil
	})
	if err := a.Update(keyOf("a", 1), rel); !errors.Is(err, driver.ErrReleaseNotFound) {
		t.Errorf("updating what is gone gives %v", err)
	}
	if _, err := a.Delete(keyOf("a", 1)); !errors.Is(err, driver.ErrReleaseNotFound) {
		t.Errorf("deleting what is gone gives %v", err)
	}
	if err := b.Update(keyOf("a", 1), rel); !errors.Is(err, driver.ErrReleaseNotFound) {
		t.Errorf("the stale writer gets %v for what is gone", err)
	}
}

func TestForgedSecretsHarmNobody(t *testing.T) {
	cluster := controlplane.Shared(t)
	ns := cluster.Namespace(t)
	const canary = "s3cret"
	payload, err := encode(makeRelease("other", ns, 1, helmrelease.StatusDeployed))
	must(t, err)
	for i, test := range []struct {
		version string
		data    map[string]string
		want    string
	}{
		{"1", map[string]string{"release": "!" + canary}, "not base64"},
		{"2", map[string]string{"release": string(toBase64([]byte(canary)))}, "JSON"},
		{"3", map[string]string{"x": canary}, "no content"},
		{"4", map[string]string{"parts": "{" + canary}, "list of parts"},
		{"5", map[string]string{"parts": `{"names":["` + canary + `"]}`}, "no part of it"},
		{"6", map[string]string{"parts": `{"names":[]}`}, "possible size"},
		{"7", map[string]string{"parts": `{"names":["sh.helm.release.v1.f.v7.0123456789.0"]}`}, "there is no Secret"},
		{"8", map[string]string{"release": string(toBase64(payload))}, "another name"},
		{"9", map[string]string{"release": string(toBase64([]byte(`{"name":"f","version":9}`)))}, "status"},
		{"10", map[string]string{"release": string(toBase64([]byte(`{"name":"f","version":10,"namespace":"kube-system","info":{}}`)))}, "namespace"},
		{"nine", nil, ""},
		{"-1", nil, ""},
	} {
		_, err := admin(t).CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "sh.helm.release.v1.f.v" + test.version, Labels: map[string]string{
				"owner": "helm", "name": "f", "version": test.version, "status": canary,
			}},
			StringData: test.data,
		}, metav1.CreateOptions{})
		if test.version == "-1" {
			continue // not a valid label, but the loop goes on
		}
		must(t, err)
		d := newOperator(t, cluster.Config(), fmt.Sprintf("forged%d/1", i)).driver(t, ns, Options{})
		_, err = d.Get("sh.helm.release.v1.f.v" + test.version)
		if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), ns+"/sh.helm") ||
			strings.Contains(err.Error(), canary)) {
			t.Errorf("version %s: got %v, want an error with %q", test.version, err, test.want)
		}
	}
	d := newOperator(t, cluster.Config(), "forged/1").driver(t, ns, Options{})
	records, err := d.Records("f")
	must(t, err)
	if len(records) != 10 || records[9].Version != 10 {
		t.Errorf("got %d records, want 10", len(records))
	}
	if rels, err := d.List(func(*helmrelease.Release) bool { return true }); err != nil || len(rels) != 0 {
		t.Errorf("got %v, error %v", rels, err)
	}
	if _, err := d.Query(map[string]string{"name": "f"}); err == nil || errors.Is(err, driver.ErrReleaseNotFound) {
		t.Errorf("a broken newest revision gives %v", err)
	}
}
