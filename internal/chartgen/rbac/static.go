// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"regexp"
	"slices"
	"strings"
	"text/template/parse"
)

// place is a line of a template.
type place struct {
	file string
	line int
}

// mention is an object that a template may print.
type mention struct {
	place
	// apiVersion may be empty, where it isn't known.
	apiVersion, kind string
	// test is true for a hook of helm test.
	test bool
}

// unclear is something that a template may print and only a rendering can tell.
type unclear struct {
	place
	// what is unclear: a kind, or a whole document.
	document bool
	// source is the line of the template.
	source string
}

// sourceLine is one line of a template's output.
type sourceLine struct {
	texts []string
	file  *template
	pos   int
}

// open tells whether the line begins with what only a rendering tells, whatever the conditions.
func (l sourceLine) open() bool {
	return len(l.texts) > 0 && !slices.ContainsFunc(l.texts, func(s string) bool {
		s = strings.TrimSpace(s)
		return s == "" || !strings.HasPrefix(s, unknown)
	})
}

var (
	headPattern     = regexp.MustCompile(`^(\s*)(- )?["']?(apiVersion|kind)["']?\s*:\s*(.*?)\s*$`)
	keyPattern      = regexp.MustCompile(`^(\s*)["']?[A-Za-z][^:\s]*["']?\s*:(\s|$)`)
	itemPattern     = regexp.MustCompile(`^(\s*)- `)
	testHookPattern = regexp.MustCompile(`helm\.sh/hook["']?\s*:\s*["']?test(-success|-failure)?["']?\s*$`)
)

// mentions returns what the templates may print, read without a rendering.
func (a *templates) mentions() ([]mention, []unclear) {
	var (
		mentions []mention
		open     []unclear
	)
	r := reader{a}
	for _, t := range a.files {
		if !t.prints || t.root.Root == nil {
			continue
		}
		for _, doc := range documents(r.split(r.lines(t.root.Root, t, 0))) {
			m, u := doc.read()
			mentions, open = append(mentions, m...), append(open, u...)
		}
	}
	return mentions, open
}

// split cuts pieces into lines.
func (r reader) split(pieces []piece) []sourceLine {
	var (
		out  []sourceLine
		line []piece
	)
	end := func() {
		if len(line) > 0 {
			out = append(out, sourceLine{r.texts(line), line[0].file, line[0].pos})
		}
		line = nil
	}
	for _, p := range pieces {
		if len(p.texts) != 1 {
			line = append(line, p)
			continue
		}
		pos := p.pos
		for i, text := range strings.Split(p.texts[0], "\n") {
			if i > 0 {
				end()
			}
			if text != "" {
				line = append(line, piece{[]string{text}, p.file, pos})
			}
			pos += len(text) + 1
		}
	}
	end()
	return out
}

// sourceDocument is one YAML document of a template's output.
type sourceDocument []sourceLine

func documents(lines []sourceLine) []sourceDocument {
	var out []sourceDocument
	start := 0
	for i, l := range lines {
		if slices.ContainsFunc(l.texts, func(s string) bool { return strings.HasPrefix(s, "---") }) {
			out = append(out, lines[start:i])
			start = i + 1
		}
	}
	return append(out, lines[start:])
}

// head is one apiVersion or kind of a document.
type head struct {
	key, value string
	at         sourceLine
}

// read returns what a document may be.
func (d sourceDocument) read() ([]mention, []unclear) {
	heads := d.heads(d.indentation(), false)
	if slices.ContainsFunc(heads, func(h head) bool { return h.key == "kind" && strings.HasSuffix(h.value, "List") }) {
		heads = d.heads(d.itemIndentation(), true)
	}
	var open []unclear
	if !slices.ContainsFunc(heads, func(h head) bool { return h.key == "kind" }) {
		for _, l := range d {
			if l.open() {
				return nil, []unclear{{at(l), true, source(l)}}
			}
		}
		return nil, nil
	}
	test := slices.ContainsFunc(d, func(l sourceLine) bool { return slices.ContainsFunc(l.texts, testHookPattern.MatchString) })
	var mentions []mention
	for _, pair := range pairs(heads) {
		for _, kind := range pair.kinds {
			if strings.Contains(kind.value, unknown) || kind.value == "" {
				open = append(open, unclear{at(kind.at), false, source(kind.at)})
				continue
			}
			versions := []string{""}
			if len(pair.versions) > 0 {
				versions = pair.versions
			}
			for _, v := range versions {
				if strings.Contains(v, unknown) {
					v = ""
				}
				mentions = append(mentions, mention{at(kind.at), v, kind.value, test})
			}
		}
	}
	return mentions, open
}

func at(l sourceLine) place { return place{l.file.file, l.file.line(l.pos)} }

// source is the template's own text in that line.
func source(l sourceLine) string {
	lines := strings.Split(string(l.file.text), "\n")
	return strings.TrimSpace(lines[min(l.file.line(l.pos), len(lines))-1])
}

// indentation of the document's own fields: that of the first.
func (d sourceDocument) indentation() int {
	for _, l := range d {
		for _, text := range l.texts {
			if m := keyPattern.FindStringSubmatch(text); m != nil {
				return len(m[1])
			}
		}
	}
	return 0
}

// itemIndentation of the fields of a list's items.
func (d sourceDocument) itemIndentation() int {
	for _, l := range d {
		for _, text := range l.texts {
			if m := itemPattern.FindStringSubmatch(text); m != nil {
				return len(m[1]) + 2
			}
		}
	}
	return 0
}

// heads are the lines with apiVersion and kind at the indentation. A line that
// begins an item of a list counts only if items are asked for.
func (d sourceDocument) heads(indentation int, items bool) []head {
	var out []head
	for _, l := range d {
		for _, text := range l.texts {
			m := headPattern.FindStringSubmatch(text)
			if m == nil {
				continue
			}
			column := len(m[1]) + len(m[2])
			if begins := m[2] != ""; begins && !items || column != indentation {
				continue
			}
			value, _, _ := strings.Cut(m[4], " #")
			value = strings.Trim(strings.TrimSpace(value), `"'`)
			if h := (head{m[3], value, l}); !slices.ContainsFunc(out, func(o head) bool {
				return o.key == h.key && o.value == h.value && o.at.pos == h.at.pos && o.at.file == h.at.file
			}) {
				out = append(out, h)
			}
		}
	}
	return out
}

// pair are kinds and the API versions that they may have.
type pair struct {
	versions []string
	kinds    []head
}

// pairs puts kinds and API versions together that stand beside each other:
// those of the branches of a condition follow each other.
func pairs(heads []head) []pair {
	var out []pair
	first := heads[0].key
	for _, h := range heads {
		last := len(out) - 1
		if last < 0 || h.key == first && out[last].full(first) {
			out = append(out, pair{})
			last++
		}
		if h.key == "kind" {
			out[last].kinds = append(out[last].kinds, h)
		} else {
			out[last].versions = union(out[last].versions, []string{h.value})
		}
	}
	return out
}

// full tells whether what belongs to a pair's first lines was there.
func (p pair) full(first string) bool {
	if first == "kind" {
		return len(p.versions) > 0
	}
	return len(p.kinds) > 0
}

// staticLookup is a call of lookup that a template holds.
type staticLookup struct {
	place
	apiVersion, kind string
	// list is true where all objects are asked for.
	list bool
	// everywhere is true where all namespaces are looked into.
	everywhere bool
	// unclear is true where kind or API version are no literals.
	unclear bool
	source  string
}

// lookups are the calls of lookup in the templates, those in named templates and NOTES too.
func (a *templates) lookups() []staticLookup {
	var out []staticLookup
	a.walk(func(t *template, c *parse.CommandNode) {
		if function(c) != "lookup" {
			return
		}
		l := sourceLine{file: t, pos: int(c.Position())}
		s := staticLookup{place: at(l), source: source(l)}
		if len(c.Args) < 3 {
			s.unclear = true
			out = append(out, s)
			return
		}
		version, ok1 := literal(c.Args[1])
		kind, ok2 := literal(c.Args[2])
		s.apiVersion, s.kind, s.unclear = version, kind, !ok1 || !ok2
		if len(c.Args) > 3 {
			namespace, known := literal(c.Args[3])
			s.everywhere = known && namespace == ""
		}
		if len(c.Args) > 4 {
			name, known := literal(c.Args[4])
			s.list = known && name == ""
		}
		out = append(out, s)
	})
	return out
}
