// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	helmrelease "helm.sh/helm/v3/pkg/release"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/release/store"
)

// Standing is where the stored release stands towards the session's change.
type Standing struct {
	// Applied is true when there is nothing to install or upgrade.
	Applied bool
	// RolledBack is true when a user rolled the release back with helm, and the
	// change says to keep that: Applied is true then, although the change is another.
	RolledBack bool
	// Revision that is stored last; 0 for none.
	Revision int
}

// LockedError says that somebody else seems to be working on the release.
type LockedError struct {
	// Until when the release is left alone.
	Until time.Time
	msg   string
}

func (e *LockedError) Error() string { return e.msg }

// holding tells what kind of thing is stored under the release's name.
type holding int

const (
	// holdsNothing: no revision, or only those of a release that was uninstalled with its history kept.
	holdsNothing holding = iota
	// holdsRemains: an install or uninstall did not get to its end, and no revision was ever deployed.
	holdsRemains
	// holdsRelease: a release that can be upgraded.
	holdsRelease
)

// Examine finds out where the stored release stands. On the way it ends what a
// dead operator left pending, and takes over what is to be adopted.
func (s *Session) Examine() (Standing, error) {
	if err := s.readRecords(); err != nil {
		return Standing{}, err
	}
	if len(s.records) == 0 {
		return Standing{}, nil
	}
	if err := s.checkOwner(); err != nil {
		return Standing{}, err
	}
	if err := s.unlock(); err != nil {
		return Standing{}, err
	}
	newest := s.newest()
	standing := Standing{Revision: newest.Version}
	if s.holds != holdsRelease || newest.Status != helmrelease.StatusDeployed {
		return standing, nil
	}
	if err := s.supersede(newest.Version); err != nil {
		return standing, err
	}
	payload, err := s.payload(newest)
	if err != nil {
		return standing, err
	}
	digest := newest.Labels[v1alpha1.LabelDigest] == labelDigest(s.change.digest) && s.change.digest != ""
	if newest.Labels[v1alpha1.LabelRevision] == strconv.Itoa(newest.Version) {
		known, isKnown := s.written(newest.Version)
		switch {
		case !digest:
		case isKnown && known != payload: // edited by somebody: to be released again
		case !isKnown:
			standing.Applied = true
			err = s.establish(newest)
		default:
			standing.Applied = true
		}
		s.applied = standing.Applied
		return standing, err
	}
	// Somebody else made this revision. Helm copied our labels to it.
	from, _ := strconv.Atoi(newest.Labels[v1alpha1.LabelRevision])
	if known, ok := s.written(from); ok && known == payload && digest {
		standing.Applied = true
	} else if s.change.KeepRollback {
		standing.RolledBack, err = s.isRollback(newest, payload)
		standing.Applied = standing.RolledBack
	}
	s.applied = standing.Applied
	return standing, err
}

// readRecords reads what is stored of the release.
func (s *Session) readRecords() error {
	records, err := s.store.Records(s.change.Name)
	if err != nil {
		return fmt.Errorf("release %s/%s: %w", s.change.Namespace, s.change.Name, err)
	}
	s.records, s.current, s.applied = records, nil, false
	s.holds = holds(records)
	return nil
}

func holds(records []store.Record) holding {
	if len(records) == 0 {
		return holdsNothing
	}
	switch records[len(records)-1].Status {
	case helmrelease.StatusUninstalled:
		return holdsNothing
	case helmrelease.StatusUninstalling, helmrelease.StatusPendingInstall:
		return holdsRemains
	default:
	}
	for _, r := range records {
		if r.Status != helmrelease.StatusFailed {
			return holdsRelease
		}
	}
	return holdsRemains
}

func (s *Session) newest() store.Record { return s.records[len(s.records)-1] }

// nextRevision is the number that the next stored revision has.
func (s *Session) nextRevision() int {
	if len(s.records) == 0 || s.holds == holdsRemains { // remains are taken away first
		return 1
	}
	return s.newest().Version + 1
}

// checkOwner refuses a release that belongs to somebody else, or takes over one
// that belongs to nobody and is to be adopted.
func (s *Session) checkOwner() error {
	want := s.change.ownerLabel()
	have := ownerOf(s.records)
	switch {
	case have == want:
		return nil
	case have == "" && s.change.Settings.Adopt:
		return s.adopt()
	case have == "":
		return terminal(CauseOwnership, fmt.Errorf("a Helm release %s in namespace %s exists and was not made by Chartgate; it is left alone. "+
			"To take it over, annotate this resource with %s=true", s.change.Name, s.change.Namespace, v1alpha1.AnnotationAdopt))
	default:
		return terminal(CauseOwnership, fmt.Errorf("a Helm release %s in namespace %s exists and belongs to a %s; it is left alone",
			s.change.Name, s.change.Namespace, have))
	}
}

// unlock ends what is pending and nobody works on any more: what carries a
// holder is Chartgate's, and one resource is served by one operator at a time;
// what carries none is a person's, and is given the time that an action may take.
func (s *Session) unlock() error {
	newest := s.newest()
	if !newest.Status.IsPending() && newest.Status != helmrelease.StatusUninstalling {
		return nil
	}
	if newest.Labels[v1alpha1.LabelHolder] == "" {
		until := newest.Modified.Add(s.change.Settings.Timeout)
		if time.Now().Before(until) {
			return &LockedError{Until: until, msg: fmt.Sprintf("release %s is in status %s by somebody else's hand; it is left alone until %s",
				s.change.Name, newest.Status, until.UTC().Format(time.RFC3339))}
		}
	}
	if s.holds == holdsRemains {
		return nil
	}
	rel, err := s.load(newest)
	if err != nil {
		return err
	}
	rel.SetStatus(helmrelease.StatusFailed, "Interrupted: whoever was releasing it stopped half-way")
	if err := s.store.Update(recordKey(rel), rel); err != nil {
		return fmt.Errorf("unlock release %s: %w", s.change.Name, err)
	}
	return s.readRecords()
}

// supersede marks older revisions that are still called deployed, as after a
// kill between the two writes that end an upgrade.
func (s *Session) supersede(deployed int) error {
	for _, r := range s.records {
		if r.Version >= deployed || r.Status != helmrelease.StatusDeployed {
			continue
		}
		rel, err := s.load(r)
		if err != nil {
			return err
		}
		rel.Info.Status = helmrelease.StatusSuperseded
		if err := s.store.Update(recordKey(rel), rel); err != nil {
			return fmt.Errorf("mark revision %d of release %s superseded: %w", r.Version, r.Name, err)
		}
	}
	return nil
}

// written returns the payload digest that is on record for a revision.
func (s *Session) written(revision int) (string, bool) {
	for _, h := range s.change.Written {
		if h.Revision == int64(revision) {
			return h.Digest, true
		}
	}
	return "", false
}

func (s *Session) isWritten(payload string) bool {
	if _, ok := s.engine.wrote.Get(writtenKey{s.change.Namespace, s.change.Name, payload}); ok {
		return true
	}
	return slices.ContainsFunc(s.change.Written, func(h v1alpha1.HistoryEntry) bool { return h.Digest == payload })
}

// trust notes that a revision is what Chartgate would have written.
func (s *Session) trust(revision int, payload string) {
	entry := v1alpha1.HistoryEntry{Revision: int64(revision), Digest: payload}
	s.change.Written = append(slices.Clone(s.change.Written), entry)
	s.outcome.Established = append(s.outcome.Established, entry)
}

// payload returns the digest of what a stored revision would apply.
func (s *Session) payload(r store.Record) (string, error) {
	if c, ok := s.engine.check(r.UID, r.ResourceVersion); ok {
		return c.payload, nil
	}
	rel, err := s.load(r)
	if err != nil {
		return "", err
	}
	c := check{version: r.ResourceVersion, payload: PayloadDigest(rel)}
	s.engine.setCheck(r.UID, c)
	return c.payload, nil
}

// establish finds out whether a revision that carries the change's digest, and
// that nothing on record speaks for (the status was lost), is what the change
// renders to. Where it isn't, or can't be told, the revision is not trusted.
func (s *Session) establish(r store.Record) error {
	c, _ := s.engine.check(r.UID, r.ResourceVersion)
	if s.isWritten(c.payload) {
		return nil
	}
	if c.compared != s.change.digest && s.change.Chart != nil {
		rel, err := s.load(r)
		if err != nil {
			return err
		}
		rendered, err := render(s.ctx, s.clients, s.change, r.Version, r.Version > 1)
		if err != nil {
			return err
		}
		c.compared, c.same = s.change.digest, rendered.sameAs(rel)
		s.engine.setCheck(r.UID, c)
	}
	if c.same {
		s.trust(r.Version, c.payload)
	}
	return nil
}

// isRollback tells whether somebody took the release back to an earlier revision of ours.
func (s *Session) isRollback(r store.Record, payload string) (bool, error) {
	if s.isWritten(payload) {
		return true, nil
	}
	rel, err := s.load(r)
	if err != nil {
		return false, err
	}
	return strings.HasPrefix(rel.Info.Description, "Rollback to"), nil
}

func (s *Session) load(r store.Record) (*helmrelease.Release, error) {
	rel, err := s.store.Load(r)
	if err != nil {
		return nil, fmt.Errorf("release %s/%s revision %d: %w", s.change.Namespace, s.change.Name, r.Version, err)
	}
	return rel, nil
}

// record notes on the stored release that the change is what it holds.
func (s *Session) record() error {
	payload, err := s.payload(s.newest())
	if err != nil {
		return err
	}
	labels := map[string]*string{
		v1alpha1.LabelDigest:   new(labelDigest(s.change.digest)),
		v1alpha1.LabelRevision: new(strconv.Itoa(s.newest().Version)),
	}
	next, err := s.store.Relabel(s.newest(), labels, false)
	if err != nil {
		return fmt.Errorf("note the digest on release %s: %w", s.change.Name, err)
	}
	s.engine.setCheck(next.UID, check{version: next.ResourceVersion, payload: payload})
	s.trust(next.Version, payload)
	s.records[len(s.records)-1] = next
	if s.current != nil {
		rel := *s.current
		rel.Labels = maps.Clone(next.Labels)
		s.current = &rel
	}
	s.outcome.Action, s.applied = ActionRecorded, true
	return nil
}

// recordKey is the name of the Secret that stores a revision.
func recordKey(rel *helmrelease.Release) string {
	return fmt.Sprintf("sh.helm.release.v1.%s.v%d", rel.Name, rel.Version)
}
