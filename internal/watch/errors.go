// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Error is one problem of a watches file.
type Error struct {
	// File as it was named to Load or Parse.
	File string
	// Line of the problem, from 1. 0: the file as a whole.
	Line int
	// Msg says what is wrong, in one line, and what to do where that isn't plain.
	Msg string
	// Suggestion is the known name that was probably meant, or empty.
	Suggestion string

	cause error
}

// Error returns file:line: message, in one line, with the suggestion as a question.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": ")
	b.WriteString(strings.ReplaceAll(e.Msg, "\n", " "))
	if e.Suggestion != "" {
		fmt.Fprintf(&b, "; did you mean %q?", e.Suggestion)
	}
	return b.String()
}

// Unwrap returns the error of the operating system for a file that can't be read, else nil.
func (e *Error) Unwrap() error { return e.cause }

// problems collects the errors of one file.
type problems struct {
	file string
	list []*Error
	seen map[problem]bool
}

// problem tells errors apart. An anchor's content is read wherever it is used,
// but what is wrong with it is said once.
type problem struct {
	line int
	msg  string
}

func (p *problems) add(line int, suggestion, format string, args ...any) {
	e := &Error{File: p.file, Line: line, Msg: fmt.Sprintf(format, args...), Suggestion: suggestion}
	key := problem{line, e.Msg}
	if p.seen[key] {
		return
	}
	if p.seen == nil {
		p.seen = map[problem]bool{}
	}
	p.seen[key] = true
	p.list = append(p.list, e)
}

// err joins what was collected, sorted by line; nil when there is nothing.
func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	slices.SortStableFunc(p.list, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	errs := make([]error, len(p.list))
	for i, e := range p.list {
		errs[i] = e
	}
	return errors.Join(errs...)
}

// quote quotes what a user wrote, shortened to what a line of output bears.
func quote(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// oneOf lists names for a message, in their order: a, b or c.
func oneOf(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
