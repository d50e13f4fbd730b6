// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chartgate/chartgate/test/harness"
)

var (
	first  = spec{message: "first", old: true}
	second = spec{message: "second", extra: true}
	third  = spec{message: "third"}
	// broken is second, and the API server calls one of its objects invalid.
	broken = spec{message: "second", replicas: -1, extra: true}
	// full is what an install has most to do with.
	full = spec{message: "first", extra: true, old: true}
)

// scenario is one thing that a user does, and how it has to end.
type scenario struct {
	// before brings about what there is before; may be nil.
	before func(*run)
	// act is what the user does.
	act func(*run)
	// done returns nil once everything is as it has to be.
	done func(*run) error
}

func install(s spec) func(*run) {
	return func(r *run) {
		r.Helper()
		r.create(s)
		r.Eventually("the install before", func() error { return r.installed(s) })
	}
}

var (
	installing = scenario{
		act:  func(r *run) { r.create(full) },
		done: func(r *run) error { return r.installed(full) },
	}
	upgrading = scenario{
		before: install(first),
		act:    func(r *run) { r.update(second) },
		done:   func(r *run) error { return r.ready(second) },
	}
	failing = scenario{
		before: install(first),
		act:    func(r *run) { r.update(broken) },
		done:   func(r *run) error { return r.stalled(first) },
	}
	uninstalling = scenario{
		before: install(full),
		act:    (*run).remove,
		done:   (*run).gone,
	}
)

func TestKilledDuringInstall(t *testing.T)       { killAtEveryWrite(t, installing) }
func TestKilledDuringUpgrade(t *testing.T)       { killAtEveryWrite(t, upgrading) }
func TestKilledDuringFailedUpgrade(t *testing.T) { killAtEveryWrite(t, failing) }
func TestKilledDuringUninstall(t *testing.T)     { killAtEveryWrite(t, uninstalling) }

// point is a write at which the operator dies.
type point struct {
	key        string
	occurrence int // among the writes of the same key, from 1
	after      bool
}

// killAtEveryWrite records the writes of a scenario, and has an operator die
// at each of them.
func killAtEveryWrite(t *testing.T, s scenario) {
	t.Parallel()
	kind := newKind(t)
	for i, p := range s.record(t, kind) {
		when := "before"
		if p.after {
			when = "after"
		}
		t.Run(fmt.Sprintf("%02d %s %s", i+1, when, p.key), func(t *testing.T) {
			t.Parallel()
			s.dieAt(t, kind, p)
		})
	}
}

// record runs the scenario undisturbed and returns its points.
func (s scenario) record(t *testing.T, kind *harness.Kind) []point {
	t.Helper()
	defer takeSlot(t)()
	r := newRun(t, kind)
	s.prepare(r)
	s.act(r)
	r.Eventually("the undisturbed operator gets to the end", func() error { return s.done(r) })
	r.waitQuiet()
	r.process.Kill()
	writes := r.proxy.Requests(isWrite)
	seen := map[string]int{}
	var points []point
	for i, w := range writes {
		key := r.key(w)
		seen[key]++
		points = append(points, point{key: key, occurrence: seen[key]})
		if isReleaseSecret(w) || i == len(writes)-1 {
			points = append(points, point{key: key, occurrence: seen[key], after: true})
		}
	}
	if len(points) == 0 {
		t.Fatal("the operator wrote nothing")
	}
	t.Logf("history %q, writes:\n  %s", r.Statuses(name), strings.Join(r.writes(), "\n  "))
	plan(len(points))
	return points
}

func (s scenario) prepare(r *run) {
	r.Helper()
	if s.before != nil {
		s.before(r)
	}
	r.settle()
}

func (s scenario) dieAt(t *testing.T, kind *harness.Kind, p point) {
	t.Helper()
	finish(t)
	takeSlot(t)
	r := newRun(t, kind)
	s.prepare(r)
	trip := r.killAt(moment{p.occurrence, p.after, func(w harness.Request) bool { return r.key(w) == p.key }})
	s.act(r)
	if !r.await(trip, func() error { return s.done(r) }) {
		t.Log("this time there was no such write; the operator was killed at rest")
	}
	left := r.Statuses(name)
	if err := r.wantHolders(); err != nil {
		t.Error(err)
	}
	r.restart()
	r.converge(func() error { return s.done(r) })
	t.Logf("history when it died %q, at the end %q", left, r.Statuses(name))
}

// TestKilledAgainAndAgain has each operator die one write later than the one
// before it, until one gets to the end.
func TestKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	kind := newKind(t)
	scenarios := map[string]scenario{"install": installing, "upgrade": upgrading, "failed upgrade": failing, "uninstall": uninstalling}
	plan(len(scenarios))
	for what, s := range scenarios {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			finish(t)
			takeSlot(t)
			r := newRun(t, kind)
			s.prepare(r)
			trip := r.killAt(moment{1, false, isWrite})
			s.act(r)
			deaths := 0
			for r.await(trip, func() error { return s.done(r) }) {
				if deaths++; deaths > 40 {
					t.Fatalf("no end after %d deaths: history %q", deaths, r.Statuses(name))
				}
				r.restart()
				trip = r.killAt(moment{deaths + 1, false, isWrite})
			}
			r.restart()
			r.converge(func() error { return s.done(r) })
			t.Logf("%d deaths; history %q", deaths, r.Statuses(name))
		})
	}
}
