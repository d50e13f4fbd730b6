// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

var (
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	later = noon.Add(time.Hour)
)

func TestTransitionTimeMovesOnlyWithTheStatus(t *testing.T) {
	first := NewBuilder(v1alpha1.CommonStatus{}, 1, noon).Ready("a").Status()
	same := NewBuilder(first, 2, later).Ready("b").Status()
	c := meta.FindStatusCondition(same.Conditions, v1alpha1.ConditionReady)
	if !c.LastTransitionTime.Time.Equal(noon) || c.Message != "b" || c.ObservedGeneration != 2 {
		t.Errorf("condition that stayed True: %+v", c)
	}
	changed := NewBuilder(same, 2, later).Stalled("Because", "c").Status()
	if c := meta.FindStatusCondition(changed.Conditions, v1alpha1.ConditionReady); !c.LastTransitionTime.Time.Equal(later) {
		t.Errorf("condition that changed: %+v", c)
	}
}

func TestPluginConditionsAreCompletedAndNotesDropped(t *testing.T) {
	st := NewBuilder(v1alpha1.CommonStatus{}, 3, noon).ReleaseAt("ns", "one").Plugin([]metav1.Condition{
		{Type: "Deployed", Status: "True", Message: "the password is hunter2"},
		{Type: "Initialized", Status: "True"},
		{Type: "ReleaseFailed", Status: "Unknown"},
		{Type: "Ready", Status: "True", Message: "not the plugin's to say"},
	}).Status()
	if len(st.Conditions) != 3 {
		t.Errorf("conditions: %+v", st.Conditions)
	}
	for _, c := range st.Conditions {
		if c.Reason == "" || c.ObservedGeneration != 3 || strings.Contains(c.Message, "hunter2") {
			t.Errorf("condition %+v", c)
		}
	}
}

func TestPendingCountsFailuresOfOneChange(t *testing.T) {
	st := NewBuilder(v1alpha1.CommonStatus{}, 1, noon).Pending("a").Failed().Status()
	st = NewBuilder(st, 1, later).Pending("a").Failed().Status()
	if st.Failures != 2 || !st.Pending.Since.Time.Equal(noon) {
		t.Errorf("same change: %+v", st)
	}
	st = NewBuilder(st, 2, later).Pending("b").Status()
	if st.Failures != 0 || !st.Pending.Since.Time.Equal(later) {
		t.Errorf("another change: %+v", st)
	}
	if st = NewBuilder(st, 2, later).Settled().Status(); st.Pending != nil {
		t.Errorf("settled: %+v", st)
	}
}

func TestHistoryIsBoundedAndHasEachRevisionOnce(t *testing.T) {
	b := NewBuilder(v1alpha1.CommonStatus{}, 1, noon)
	for i := range int64(30) {
		b.Wrote(v1alpha1.HistoryEntry{Revision: i + 1, Digest: "d"})
	}
	b.Wrote(v1alpha1.HistoryEntry{Revision: 30, Digest: "again"})
	h := b.Status().History
	if len(h) != maxHistory || h[len(h)-1].Revision != 30 || h[len(h)-1].Digest != "again" || h[0].Revision != 11 {
		t.Errorf("history: %+v", h)
	}
}

func FuzzShorten(f *testing.F) {
	f.Add(strings.Repeat("ü", 2000))
	f.Add("short")
	f.Fuzz(func(t *testing.T, text string) {
		got := shorten(text)
		if len(got) > maxMessage || (utf8.ValidString(text) && !utf8.ValidString(got)) {
			t.Errorf("%d bytes, valid %v", len(got), utf8.ValidString(got))
		}
	})
}
