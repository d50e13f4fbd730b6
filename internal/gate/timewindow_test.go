// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

func TestTimeWindow(t *testing.T) {
	at := func(s string) time.Time {
		when, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	cases := map[string]struct {
		schedule, zone string
		duration       time.Duration
		now            string
		verdict        Verdict
		recheck        time.Duration
		text           string
	}{
		"inside":                            {"0 11 * * *", "", 2 * time.Hour, "2026-03-02T12:00:00Z", Allow, time.Hour, "open until 2026-03-02T13:00:00Z"},
		"at its start":                      {"0 12 * * *", "", time.Hour, "2026-03-02T12:00:00Z", Allow, time.Hour, ""},
		"at its end":                        {"0 11 * * *", "", time.Hour, "2026-03-02T12:00:00Z", Hold, 23 * time.Hour, "opens at 2026-03-03T11:00:00Z for 1h0m0s"},
		"just before":                       {"0 12 * * *", "", time.Hour, "2026-03-02T11:59:59.999Z", Hold, 10 * time.Millisecond, ""},
		"over midnight":                     {"0 22 * * 5", "", 4 * time.Hour, "2026-03-07T01:00:00Z", Allow, time.Hour, ""},
		"in another zone":                   {"0 22 * * *", "Europe/Berlin", time.Hour, "2026-03-02T21:30:00Z", Allow, 30 * time.Minute, "23:00:00+01:00"},
		"in summer time":                    {"0 22 * * *", "Europe/Berlin", time.Hour, "2026-07-02T20:30:00Z", Allow, 30 * time.Minute, "23:00:00+02:00"},
		"a time that is left out":           {"30 2 * * *", "Europe/Berlin", time.Hour, "2026-03-29T01:30:00Z", Hold, 23 * time.Hour, ""},
		"windows that overlap":              {"* * * * *", "", time.Hour, "2026-03-02T12:00:30Z", Allow, 59*time.Minute + 30*time.Second, "13:00:00Z"},
		"a schedule that never comes":       {"0 0 30 2 *", "", time.Hour, "2026-03-02T12:00:00Z", Hold, defaultCheckInterval, "correct the gate's schedule"},
		"a name for a schedule":             {"@daily", "", 13 * time.Hour, "2026-03-02T12:00:00Z", Allow, time.Hour, ""},
		"no schedule":                       {"", "", time.Hour, "2026-03-02T12:00:00Z", 0, 0, "schedule: is missing"},
		"no cron":                           {"every day", "", time.Hour, "2026-03-02T12:00:00Z", 0, 0, "is not a cron schedule"},
		"@every":                            {"@every 1h", "", time.Hour, "2026-03-02T12:00:00Z", 0, 0, "names no times"},
		"a zone in the schedule":            {"CRON_TZ=UTC 0 0 * * *", "", time.Hour, "2026-03-02T12:00:00Z", 0, 0, "put it into timezone"},
		"a broken zone in it":               {"TZ=", "", time.Hour, "2026-03-02T12:00:00Z", 0, 0, "put it into timezone"},
		"a zone that is none":               {"0 0 * * *", "Europe/Berln", time.Hour, "2026-03-02T12:00:00Z", 0, 0, `timezone: "Europe/Berln" is unknown`},
		"the operator's zone":               {"0 0 * * *", "Local", time.Hour, "2026-03-02T12:00:00Z", 0, 0, "the operator's own"},
		"a window that is open for no time": {"0 0 * * *", "", 0, "2026-03-02T12:00:00Z", 0, 0, "duration: is missing"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ch := change(nil)
			ch.Clock = clocktesting.NewFakePassiveClock(at(c.now))
			g := v1alpha1.Gate{Type: v1alpha1.GateTimeWindow, Schedule: c.schedule, Timezone: c.zone, Duration: &metav1.Duration{Duration: c.duration}}
			d := judge(t, ch, g, Options{})
			reason := map[Verdict]string{Allow: ReasonWindowOpen, Hold: ReasonWindowClosed, 0: ReasonInvalidGate}[c.verdict]
			if c.verdict == 0 {
				c.verdict, c.recheck = Hold, defaultCheckInterval
			}
			expect(t, d, c.verdict, reason, c.text)
			if d.RecheckAfter != c.recheck {
				t.Errorf("looked at again after %s, want %s", d.RecheckAfter, c.recheck)
			}
		})
	}
}

// FuzzTimeWindow finds that a window is open from the moment that was foretold, and not before.
func FuzzTimeWindow(f *testing.F) {
	f.Add("0 22 * * 1-5", "Europe/Berlin", int64(7200), int64(1772452800))
	f.Add("@hourly", "", int64(60), int64(0))
	f.Add("TZ=", "", int64(1), int64(1))
	f.Add("*/7 1-3 29 2 *", "America/New_York", int64(1e9), int64(-1e9))
	f.Fuzz(func(t *testing.T, schedule, zone string, seconds, now int64) {
		const year = 366 * 24 * 3600
		if seconds > year || now > 200*year || now < -50*year {
			return
		}
		g := v1alpha1.Gate{Name: "g", Type: v1alpha1.GateTimeWindow, Schedule: schedule, Timezone: zone, Duration: &metav1.Duration{Duration: time.Duration(seconds) * time.Second}}
		ask := func(when time.Time) (Decision, error) {
			ch := change(nil)
			ch.Clock = clocktesting.NewFakePassiveClock(when)
			return timeWindow{}.Evaluate(t.Context(), ch, g)
		}
		start := time.Unix(now, 0)
		d, err := ask(start)
		if err != nil || d.Verdict == Allow || d.RecheckAfter == 0 {
			return
		}
		if at, err := ask(start.Add(d.RecheckAfter)); err != nil || at.Verdict != Allow {
			t.Errorf("not open when foretold: %+v, %v", at, err)
		}
		if before, err := ask(start.Add(d.RecheckAfter - time.Second)); err != nil || before.Verdict == Allow {
			t.Errorf("open before: %+v, %v", before, err)
		}
	})
}
