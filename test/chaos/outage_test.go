// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/chartgate/chartgate/test/harness"
)

// deployRetry is the least time after a failed deployment before it is tried
// again, and some for the trial.
const deployRetry = time.Minute + harness.Wait

// TestAPIServerOutage has the API server vanish from a living operator.
func TestAPIServerOutage(t *testing.T) {
	t.Parallel()
	kind := newKind(t)
	cases := map[string]struct {
		scenario scenario
		at       moment
	}{
		"install, before the objects":            {installing, moment{1, true, isReleaseSecret}},
		"install, before the revision is marked": {installing, moment{2, false, isReleaseSecret}},
		"upgrade, before the objects":            {upgrading, moment{1, true, isReleaseSecret}},
		"upgrade, extra made":                    {upgrading, moment{1, true, isExtra}},
		"upgrade, before the revision is marked": {upgrading, moment{2, false, isReleaseSecret}},
		"failed upgrade, rolling back":           {failing, moment{1, true, isRollback}},
		"uninstall, before the objects":          {uninstalling, moment{1, true, isReleaseSecret}},
	}
	plan(len(cases))
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			finish(t)
			free := takeSlot(t)
			r := newRun(t, kind)
			c.scenario.prepare(r)
			free() // all that follows is waiting
			r.proxy.OnWrite(c.at.hook(r.proxy.Off))
			c.scenario.act(r)
			r.Eventually("the operator notices", func() error {
				if n := r.proxy.Refused(); n < 5 {
					return fmt.Errorf("%d connections were refused", n)
				}
				return nil
			})
			r.proxy.OnWrite(nil)
			r.proxy.On()
			r.within(deployRetry, "the operator gets to the end", func() error { return c.scenario.done(r) })
			t.Logf("history %q", r.Statuses(name))
		})
	}
}

// within is Eventually for what takes longer, by an operator that lives.
func (r *run) within(limit time.Duration, what string, check func() error) {
	r.Helper()
	deadline, exited := time.After(limit), r.process.Exited()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-exited:
			r.Fatalf("%s: the operator ended", what)
		case <-deadline:
			r.Fatalf("%s: %v", what, err)
		case <-r.Ctx.Done():
			r.Fatalf("%s: %v", what, errors.Join(err, r.Ctx.Err()))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestStandbyTakesOver has the leader of two operators killed: the other one
// is running already, and takes over without a start.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	kind := newKind(t)
	cases := map[string]struct {
		scenario scenario
		dies     moment
	}{
		"install":        {installing, moment{2, false, isReleaseSecret}},
		"upgrade":        {upgrading, moment{2, false, isReleaseSecret}},
		"failed upgrade": {failing, moment{1, true, isRollback}},
		"uninstall":      {uninstalling, moment{1, true, isReleaseSecret}},
	}
	plan(len(cases))
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			finish(t)
			free := takeSlot(t)
			args := []string{"--leader-elect", "--leader-election-namespace", "default", "--leader-election-id", harness.Name("chaos-")}
			r := newRun(t, kind, args...)
			c.scenario.prepare(r)
			leads := func(w harness.Request) bool { return w.Resource == "leases" && w.Verb == "update" }
			r.Eventually("the first operator leads", func() error {
				if len(r.proxy.Requests(leads)) == 0 {
					return errors.New("it did not renew its lease yet")
				}
				return nil
			})
			standby := r.StartProxy()
			r.start(standby, args...)
			trip := r.killAt(c.dies)
			c.scenario.act(r)
			if !r.await(trip, func() error { return c.scenario.done(r) }) {
				t.Error("the operator did not come to the write at which it was to die")
			}
			free() // a lease takes its time to expire
			r.proxy = standby
			r.converge(func() error { return c.scenario.done(r) })
			t.Logf("history %q", r.Statuses(name))
		})
	}
}
