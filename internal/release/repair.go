// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	helmrelease "helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// Reconcile implements ActionInterface: it looks at those objects of the
// release that were changed or removed since they were last verified, and puts
// them back, or reports them, as the settings say.
func (s *Session) Reconcile(rel *helmrelease.Release) error {
	return s.failed(s.repair(rel))
}

func (s *Session) repair(rel *helmrelease.Release) error {
	objects, err := s.trustedObjects(rel)
	if err != nil {
		return err
	}
	if err := s.watch(objects); err != nil {
		return err
	}
	a := s.applier(s.ctx, false)
	var errs []error
	for _, o := range objects {
		if s.unchanged(o, s.mode()) {
			continue
		}
		if s.rescales(o) {
			errs = append(errs, s.scale(a, o))
		} else {
			errs = append(errs, s.look(a, o))
		}
	}
	return errors.Join(errs...)
}

// look treats an object that may have drifted, as the settings say.
func (s *Session) look(a applier, o object) error {
	switch s.change.Settings.Drift {
	case v1alpha1.DriftIgnore:
		return s.accept(a, o)
	case v1alpha1.DriftReport:
		return s.report(a, o)
	default:
		return s.restore(a, o)
	}
}

// busyTries is how often a repair looks at an object that others write at the same time, before it is tried again later.
const busyTries = 5

// restore makes sure the object is as the release has it: created when it is
// gone, patched when it was edited. Objects to be kept are only created.
func (s *Session) restore(a applier, o object) error {
	for range busyTries {
		live, err := a.get(o)
		if err != nil {
			return err
		}
		if live == nil {
			live, err = a.create(o)
			if apierrors.IsAlreadyExists(err) {
				continue
			}
			if err != nil {
				return err
			}
			s.repaired(o, live, "created")
			return nil
		}
		if live.GetDeletionTimestamp() != nil {
			return nil // its end is an event, and then it is created anew
		}
		if kept(o.obj) || kept(live) {
			s.verified(o, live)
			return nil
		}
		if err := s.checkObject(o, live); err != nil {
			return err
		}
		original, target := spare(o.obj, o.obj, live)
		after, changed, err := a.patchLive(o, original, target, live)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			continue // it is not what was looked at any more
		}
		if err != nil {
			return err
		}
		if changed {
			s.repaired(o, after, "changed back")
		} else {
			s.verified(o, after)
		}
		return nil
	}
	return fmt.Errorf("repair %s: somebody else writes it all the time", o)
}

// checkObject refuses to patch an object that another release has taken over.
// One that merely lost its mark gets it back.
func (s *Session) checkObject(o object, live *unstructured.Unstructured) error {
	a := live.GetAnnotations()
	name, namespace := a[helmNameAnnotation], a[helmNamespaceAnnotation]
	if name == "" || (name == s.change.Name && namespace == s.change.Namespace) {
		return nil
	}
	return terminal(CauseOwnership, fmt.Errorf("%s %s; it is left alone", o, whose(live)))
}

func (s *Session) repaired(o object, live *unstructured.Unstructured, what string) {
	s.outcome.Repaired = append(s.outcome.Repaired, o.String()+" "+what)
	s.verified(o, live)
}

// accept takes the object as it is.
func (s *Session) accept(a applier, o object) error {
	live, err := a.get(o)
	if err != nil {
		return err
	}
	if live == nil {
		s.engine.tracker.Missing(s.change.Owner, o.ref(), o.print(), s.mode(), "")
		return nil
	}
	s.engine.tracker.Drifted(s.change.Owner, live, o.print(), s.mode(), "")
	return nil
}

// report notes where the object differs from the release, and changes nothing.
func (s *Session) report(a applier, o object) error {
	live, err := a.get(o)
	if err != nil {
		return err
	}
	if live == nil {
		s.engine.tracker.Missing(s.change.Owner, o.ref(), o.print(), s.mode(), o.String()+" is missing")
		return nil
	}
	original, target := spare(o.obj, o.obj, live)
	patch, _, err := threeWayPatch(original, target, live)
	if err != nil {
		return terminal(CauseRender, fmt.Errorf("difference of %s: %w", o, err))
	}
	if patch == nil || kept(o.obj) || kept(live) {
		s.verified(o, live)
		return nil
	}
	paths, err := patchPaths(patch)
	if err != nil {
		return fmt.Errorf("difference of %s: %w", o, err)
	}
	s.engine.tracker.Drifted(s.change.Owner, live, o.print(), s.mode(), o.String()+": "+strings.Join(paths, ", "))
	return nil
}

// maxPaths bounds how many paths of one object are named.
const maxPaths = 8

// patchPaths names the fields that a patch sets, without their values. Lists
// of a strategic merge patch are named by their items' merge keys.
func patchPaths(patch []byte) ([]string, error) {
	var root map[string]any
	if err := json.Unmarshal(patch, &root); err != nil {
		return nil, err
	}
	var paths []string
	collectPaths("", root, &paths)
	sort.Strings(paths)
	paths = slices.Compact(paths)
	if extra := len(paths) - maxPaths; extra > 0 {
		paths = append(paths[:maxPaths], fmt.Sprintf("and %d more", extra))
	}
	return paths, nil
}

func collectPaths(path string, value any, paths *[]string) {
	fields, ok := value.(map[string]any)
	if !ok {
		if items, isList := value.([]any); isList && collectItems(path, items, paths) {
			return
		}
		*paths = append(*paths, path)
		return
	}
	if len(fields) == 0 {
		*paths = append(*paths, path)
	}
	for key, v := range fields {
		switch {
		case isDirective(key):
		case strings.HasPrefix(key, "$"):
			*paths = append(*paths, path)
		case path == "":
			collectPaths(key, v, paths)
		default:
			collectPaths(path+"."+key, v, paths)
		}
	}
}

// collectItems names the fields of list items that have a name, and tells whether all do.
func collectItems(path string, items []any, paths *[]string) bool {
	for _, item := range items {
		if m, ok := item.(map[string]any); !ok || m["name"] == nil {
			return false
		}
	}
	for _, item := range items {
		m, _ := item.(map[string]any)
		rest := make(map[string]any, len(m))
		for k, v := range m {
			if k != "name" {
				rest[k] = v
			}
		}
		collectPaths(fmt.Sprintf("%s[%v]", path, m["name"]), rest, paths)
	}
	return len(items) > 0
}
