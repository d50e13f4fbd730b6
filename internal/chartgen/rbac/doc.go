// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rbac works out the rights that an operator needs: what the releases of
// its charts take, and what the operator itself does.
//
// What a chart makes is found out by rendering it, offline, under many values:
// its defaults, samples, every boolean switched. What no rendering reached is
// read from the templates. Whatever can't be resolved is told, never guessed.
//
// The verbs are those that package release uses. Rules hold no wildcard: where a
// chart would need one, that is told as well.
package rbac

import "fmt"

// Message tells of something that the rules don't cover, or, if it is a note,
// of something that they cover and a reader should know.
type Message struct {
	// File that the message is about, such as helm-charts/guestbook/templates/ingress.yaml.
	File string
	// Line in the file, from 1. 0 where there is none.
	Line int
	// Text says what it is, and what to do about it.
	Text string
	// Note is true where nothing is missing.
	Note bool
}

// String is the message in one line.
func (m Message) String() string {
	if m.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Text)
	}
	return m.File + ": " + m.Text
}
