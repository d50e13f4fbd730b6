// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// errorTest is a file and the errors it gives, one a line, without the name of the file.
type errorTest struct {
	in   string
	want []string
}

func testErrors(t *testing.T, tests map[string]errorTest) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			watches, err := Parse("watches.yaml", []byte(tc.in), known)
			if err == nil {
				t.Fatalf("no error, but %+v", watches)
			}
			if watches != nil {
				t.Error("watches are returned with an error")
			}
			got := strings.Split(err.Error(), "\n")
			for i, l := range got {
				got[i] = strings.TrimPrefix(l, "watches.yaml")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorsAreTyped(t *testing.T) {
	_, err := Parse("dir/w.yaml", []byte(guestbook+"  translater: webapp\n  foo: 1\n"), known)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("no *Error in %v", err)
	}
	want := Error{File: "dir/w.yaml", Line: 5, Msg: `unknown field "translater"`, Suggestion: "translator"}
	if e.File != want.File || e.Line != want.Line || e.Msg != want.Msg || e.Suggestion != want.Suggestion {
		t.Errorf("got %+v, want %+v", *e, want)
	}
	if want := "dir/w.yaml:5: unknown field \"translater\"; did you mean \"translator\"?\ndir/w.yaml:6: unknown field \"foo\""; err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestAliasBombsAreRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString(guestbook + "  overrideValues:\n    l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		prev := "*l" + strconv.Itoa(i-1)
		b.WriteString("    l" + strconv.Itoa(i) + ": &l" + strconv.Itoa(i) + " [" + strings.Repeat(prev+", ", 9) + prev + "]\n")
	}
	_, err := Parse("watches.yaml", []byte(b.String()), known)
	if err == nil || !strings.Contains(err.Error(), "more than 100000 values, aliases counted where they are used") {
		t.Errorf("got %v", err)
	}
}

func TestDeepNestingIsRefused(t *testing.T) {
	in := guestbook + "  overrideValues:\n    a: " + strings.Repeat("[", 500) + strings.Repeat("]", 500) + "\n"
	_, err := Parse("watches.yaml", []byte(in), known)
	if err == nil || !strings.Contains(err.Error(), "watches.yaml:6: nested more than 64 levels deep") {
		t.Errorf("got %v", err)
	}
}

func TestNamesAreListedWhereThereAreNone(t *testing.T) {
	_, err := Parse("w", []byte(guestbook+"  translator: webapp\n"), Known{})
	if want := `w:5: unknown translator "webapp" (there are none)`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestClosest(t *testing.T) {
	tests := map[string]struct {
		name       string
		candidates []string
		want       string
	}{
		"an added letter":          {"chartt", []string{"chart", "kind"}, "chart"},
		"the nearer of two":        {"gateA", []string{"gateBB", "gateB"}, "gateB"},
		"the first of two as near": {"gateA", []string{"gateB", "gateC"}, "gateB"},
		"nothing near":             {"foo", []string{"chart", "kind"}, ""},
		"a short name":             {"kimd", []string{"kind"}, "kind"},
		"no candidates":            {"kind", nil, ""},
		"an empty name":            {"", []string{"kind"}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := closest(tc.name, tc.candidates); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
