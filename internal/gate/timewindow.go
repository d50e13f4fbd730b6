// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"fmt"
	"strings"
	"time"
	// The names of time zones, for images that have none.
	_ "time/tzdata"

	"github.com/robfig/cron/v3"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// timeWindow passes while a window is open: for the gate's duration after each
// time that its schedule names. A time that a change to summer time leaves out
// opens no window.
type timeWindow struct{}

// window is a schedule that was read.
type window struct {
	schedule cron.Schedule
	duration time.Duration
	zone     *time.Location
}

// maxStarts bounds the search for the last of windows that overlap.
const maxStarts = 1000

func (timeWindow) Evaluate(_ context.Context, change Change, g v1alpha1.Gate) (Decision, error) {
	w, err := windowOf(g)
	if err != nil {
		return Decision{}, err
	}
	now := change.now().In(w.zone)
	if start, open := w.last(now); open {
		until := start.Add(w.duration)
		return Decision{
			Verdict: Allow, Reason: ReasonWindowOpen, RecheckAfter: atLeast(until.Sub(now)),
			Message: "the window is open until " + until.Format(time.RFC3339),
		}, nil
	}
	next := w.schedule.Next(now)
	if next.IsZero() {
		return Decision{Verdict: Hold, Reason: ReasonWindowClosed, Message: fmt.Sprintf("no time within the next five years matches schedule %q; correct the gate's schedule", g.Schedule)}, nil
	}
	return Decision{
		Verdict: Hold, Reason: ReasonWindowClosed, RecheckAfter: atLeast(next.Sub(now)),
		Message: fmt.Sprintf("the window is closed; it opens at %s for %s", next.Format(time.RFC3339), w.duration),
	}, nil
}

func (timeWindow) Check(g v1alpha1.Gate) error {
	_, err := windowOf(g)
	return err
}

// last is the start of the window that is open now, the latest if several are.
func (w window) last(now time.Time) (time.Time, bool) {
	start := w.schedule.Next(now.Add(-w.duration))
	if start.IsZero() || start.After(now) {
		return time.Time{}, false
	}
	for range maxStarts {
		next := w.schedule.Next(start)
		if next.IsZero() || next.After(now) {
			break
		}
		start = next
	}
	return start, true
}

// atLeast keeps a time from being so short that a timer that fires early finds the edge still ahead again and again.
func atLeast(d time.Duration) time.Duration { return max(d, 10*time.Millisecond) }

// scheduleParser reads the five fields of cron, and names such as @daily.
var scheduleParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

func windowOf(g v1alpha1.Gate) (window, error) {
	invalid := func(field, problem, hint string) (window, error) {
		return window{}, &InvalidError{Gate: g.Name, Field: field, Problem: problem, Hint: hint}
	}
	if g.Duration == nil || g.Duration.Duration <= 0 {
		return invalid(fieldDuration, "is missing, or not longer than 0", "say how long the window stays open, such as 2h")
	}
	if g.Timezone == "Local" {
		return invalid(fieldTimezone, "Local would be the operator's own", "use a name such as Europe/Berlin")
	}
	zone, err := time.LoadLocation(g.Timezone)
	if err != nil {
		return invalid(fieldTimezone, fmt.Sprintf("%q is unknown", g.Timezone), "use a name such as Europe/Berlin")
	}
	schedule := strings.TrimSpace(g.Schedule)
	const hint = "use five fields (minute, hour, day of month, month, day of week), such as 0 22 * * 1-5"
	switch {
	case schedule == "":
		return invalid(fieldSchedule, "is missing", hint)
	case strings.Contains(schedule, "TZ="):
		return invalid(fieldSchedule, "can't hold a time zone", "put it into timezone")
	case strings.HasPrefix(schedule, "@every"):
		return invalid(fieldSchedule, "@every names no times", hint)
	}
	parsed, err := scheduleParser.Parse(schedule)
	if err != nil {
		return invalid(fieldSchedule, fmt.Sprintf("%q is not a cron schedule: %v", g.Schedule, err), hint)
	}
	return window{schedule: parsed, duration: g.Duration.Duration, zone: zone}, nil
}
