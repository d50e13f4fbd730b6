// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
)

const (
	// minPart is the length from which on a value is looked for inside of other
	// texts. Shorter ones would be found everywhere; they are hidden where they
	// are the whole text.
	minPart = 4
	// minLine is the length from which on single lines of a value are looked for as well.
	minLine = 8
	// minKey is the length from which on a value is looked for in the keys of maps.
	minKey = 8
)

// needles are the values that must not show.
type needles struct {
	values map[string]bool
	// parts are those to look for inside of texts, sorted.
	parts []string
}

func newNeedles() *needles { return &needles{values: map[string]bool{}} }

// add takes up a value, and the forms in which other texts may hold it.
func (n *needles) add(value string) {
	for _, form := range Forms(value) {
		n.put(form)
	}
}

func (n *needles) put(value string) {
	if value != "" {
		n.values[value] = true
	}
}

// done ends the collection.
func (n *needles) done() {
	for v := range n.values {
		if len(v) >= minPart {
			n.parts = append(n.parts, v)
		}
	}
	slices.Sort(n.parts)
}

// holds tells whether the text is one of the values, or has one in it.
func (n *needles) holds(text string) bool {
	return n.values[text] && len(text) >= minPart || slices.ContainsFunc(n.parts, func(p string) bool { return strings.Contains(text, p) })
}

// redact takes the values out of a text.
func (n *needles) redact(text string) string {
	if n.values[text] {
		return Redacted
	}
	return n.cut(text, minPart)
}

// redactKey takes the values out of a key.
func (n *needles) redactKey(key string) string { return n.cut(key, minKey) }

// span is a part of a text, in bytes.
type span struct{ from, to int }

// cut replaces every occurrence of the values by the marker. Occurrences that
// overlap or touch are replaced as one, so no end of one of them stays.
func (n *needles) cut(text string, shortest int) string {
	var spans []span
	for _, part := range n.parts {
		if len(part) < shortest {
			continue
		}
		for from := 0; ; {
			i := strings.Index(text[from:], part)
			if i < 0 {
				break
			}
			spans = append(spans, span{from + i, from + i + len(part)})
			from += i + 1
		}
	}
	if len(spans) == 0 {
		return text
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	var out strings.Builder
	end := 0
	for i := 0; i < len(spans); {
		s := spans[i]
		for i++; i < len(spans) && spans[i].from <= s.to; i++ {
			s.to = max(s.to, spans[i].to)
		}
		out.WriteString(text[end:s.from])
		out.WriteString(Redacted)
		end = s.to
	}
	out.WriteString(text[end:])
	return out.String()
}
