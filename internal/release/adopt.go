// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"reflect"
	"strconv"

	helmrelease "helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// owned tells whether what is stored belongs to the session's owner, or belongs
// to nobody and is to be adopted.
func (s *Session) owned() bool {
	have := ownerOf(s.records)
	return have == s.change.ownerLabel() || (have == "" && s.change.Settings.Adopt)
}

// adopt makes a release that somebody else installed the owner's, with no new
// revision. If the change renders to just that release, it is applied already.
func (s *Session) adopt() error {
	newest := s.newest()
	if newest.Status.IsPending() {
		return s.unlock()
	}
	labels := map[string]*string{
		v1alpha1.LabelOwner:    new(s.change.ownerLabel()),
		v1alpha1.LabelRevision: new(strconv.Itoa(newest.Version)),
	}
	same := false
	if newest.Status == helmrelease.StatusDeployed && s.change.Chart != nil {
		rel, err := s.load(newest)
		if err != nil {
			return err
		}
		r, err := render(s.ctx, s.clients, s.change, newest.Version, newest.Version > 1)
		if err != nil {
			return err
		}
		if same, err = s.equivalent(r, rel); err != nil {
			return err
		}
		if same {
			labels[v1alpha1.LabelDigest] = new(labelDigest(s.change.digest))
			s.trust(newest.Version, PayloadDigest(rel))
		}
	}
	if _, err := s.store.Relabel(newest, labels, true); err != nil {
		return fmt.Errorf("adopt release %s: %w", s.change.Name, err)
	}
	return s.readRecords()
}

// equivalent tells whether a rendering makes the objects that a release of
// another operator holds. Those wrote the way back to the owner into the
// manifest, and the manifest in their own style.
func (s *Session) equivalent(r *rendering, rel *helmrelease.Release) (bool, error) {
	if r.sameAs(rel) {
		return true, nil
	}
	if !r.sameHooks(rel) {
		return false, nil
	}
	stored, err := s.bare(rel.Manifest)
	if err != nil {
		return false, nil //nolint:nilerr // what cannot be read is not the same
	}
	rendered, err := s.bare(r.manifest)
	if err != nil {
		return false, err
	}
	return reflect.DeepEqual(stored, rendered), nil
}

// bare returns a manifest's objects without the way back to the owner.
func (s *Session) bare(manifest string) (map[objectKey]map[string]any, error) {
	parsed, err := parseManifestString(manifest)
	if err != nil {
		return nil, terminal(CauseRender, err)
	}
	out := make(map[objectKey]map[string]any, len(parsed))
	for _, obj := range parsed {
		o, err := s.locate(obj)
		if err != nil {
			return nil, err
		}
		disown(obj, func(ref metav1.OwnerReference) bool {
			return ref.Kind == s.change.Owner.GetKind() && ref.Name == s.change.Owner.GetName()
		})
		out[o.key()] = obj.Object
	}
	return out, nil
}
