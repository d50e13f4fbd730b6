// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import "testing"

// TestUserActsBetweenDeathAndRestart has the user change or delete the
// resource while no operator is there to see it.
func TestUserActsBetweenDeathAndRestart(t *testing.T) {
	t.Parallel()
	kind := newKind(t)
	var (
		lockTaken   = moment{1, true, isReleaseSecret}  // the revision is stored, no object is written
		extraMade   = moment{1, true, isExtra}          // some objects are written
		objectsMade = moment{2, false, isReleaseSecret} // all objects are written, the revision is not marked
		rollingBack = moment{1, true, isRollback}       // a rollback has begun
	)
	change := func(s spec) func(*run) { return func(r *run) { r.update(s) } }
	isReady := func(s spec) func(*run) error { return func(r *run) error { return r.ready(s) } }
	isInstalled := func(s spec) func(*run) error { return func(r *run) error { return r.installed(s) } }
	cases := map[string]struct {
		scenario scenario
		dies     moment
		act      func(*run)
		done     func(*run) error
	}{
		"install, lock taken, changed":          {installing, lockTaken, change(third), isInstalled(third)},
		"install, extra made, changed":          {installing, extraMade, change(third), isInstalled(third)},
		"install, objects made, changed":        {installing, objectsMade, change(third), isInstalled(third)},
		"install, objects made, made invalid":   {installing, objectsMade, change(broken), func(r *run) error { return r.neverInstalled() }},
		"upgrade, lock taken, changed":          {upgrading, lockTaken, change(third), isReady(third)},
		"upgrade, extra made, changed":          {upgrading, extraMade, change(third), isReady(third)},
		"upgrade, objects made, changed":        {upgrading, objectsMade, change(third), isReady(third)},
		"upgrade, lock taken, taken back":       {upgrading, lockTaken, change(first), isReady(first)},
		"upgrade, extra made, taken back":       {upgrading, extraMade, change(first), isReady(first)},
		"upgrade, objects made, taken back":     {upgrading, objectsMade, change(first), isReady(first)},
		"upgrade, objects made, made invalid":   {upgrading, objectsMade, change(broken), func(r *run) error { return r.stalled(first) }},
		"failed upgrade, rolling back, mended":  {failing, rollingBack, change(second), isReady(second)},
		"failed upgrade, rolling back, back":    {failing, rollingBack, change(first), isReady(first)},
		"install, lock taken, deleted":          {installing, lockTaken, (*run).remove, (*run).gone},
		"install, extra made, deleted":          {installing, extraMade, (*run).remove, (*run).gone},
		"install, objects made, deleted":        {installing, objectsMade, (*run).remove, (*run).gone},
		"upgrade, lock taken, deleted":          {upgrading, lockTaken, (*run).remove, (*run).gone},
		"upgrade, extra made, deleted":          {upgrading, extraMade, (*run).remove, (*run).gone},
		"upgrade, objects made, deleted":        {upgrading, objectsMade, (*run).remove, (*run).gone},
		"failed upgrade, rolling back, deleted": {failing, rollingBack, (*run).remove, (*run).gone},
	}
	plan(len(cases))
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			finish(t)
			takeSlot(t)
			r := newRun(t, kind)
			c.scenario.prepare(r)
			trip := r.killAt(c.dies)
			c.scenario.act(r)
			if !r.await(trip, func() error { return c.scenario.done(r) }) {
				t.Error("the operator did not come to the write at which it was to die")
			}
			left := r.Statuses(name)
			c.act(r)
			r.restart()
			r.converge(func() error { return c.done(r) })
			t.Logf("history when it died %q, at the end %q", left, r.Statuses(name))
		})
	}
}
