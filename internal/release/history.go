// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"slices"

	helmrelease "helm.sh/helm/v3/pkg/release"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/release/store"
)

// purge deletes all that is stored of the release, the newest last.
func (s *Session) purge() error {
	for _, r := range s.records {
		if err := s.store.Prune(r); err != nil {
			return fmt.Errorf("delete revision %d of release %s: %w", r.Version, r.Name, err)
		}
	}
	return nil
}

// settle tidies up after a revision was deployed: older ones are superseded, and
// those past the history's bound are dropped. What fails is done the next time.
func (s *Session) settle(version int) {
	if s.readRecords() != nil || s.supersede(version) != nil {
		return
	}
	if s.change.Settings.MaxHistory <= 0 {
		return
	}
	extra := len(s.records) - s.change.Settings.MaxHistory
	for _, r := range s.records {
		if extra <= 0 {
			return
		}
		if r.Version == version || r.Status == helmrelease.StatusDeployed {
			continue
		}
		if s.store.Prune(r) != nil {
			return
		}
		extra--
	}
}

// pruneTries drops failed tries of this very change before the next one:
// history does not grow with tries.
func (s *Session) pruneTries() error {
	if !slices.ContainsFunc(s.records, s.isTry) {
		return nil
	}
	for _, r := range s.records[:len(s.records)-1] {
		if !s.isTry(r) {
			continue
		}
		if err := s.store.Prune(r); err != nil {
			return fmt.Errorf("drop revision %d of release %s: %w", r.Version, r.Name, err)
		}
	}
	return s.readRecords()
}

// pruneRollbacks drops superseded revisions that only repeat the one before
// them: earlier rollbacks of tries that failed.
func (s *Session) pruneRollbacks() error {
	if err := s.readRecords(); err != nil {
		return err
	}
	last := ""
	for _, r := range s.records {
		if r.Status != helmrelease.StatusSuperseded {
			continue
		}
		digest := r.Labels[v1alpha1.LabelDigest]
		if digest != "" && digest == last {
			if err := s.store.Prune(r); err != nil {
				return err
			}
		}
		last = digest
	}
	return s.readRecords()
}

func (s *Session) isTry(r store.Record) bool {
	return r.Status == helmrelease.StatusFailed && r.Labels[v1alpha1.LabelDigest] == labelDigest(s.change.digest)
}
