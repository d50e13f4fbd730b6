// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// entryNode is one element of the file's list, free of aliases and merge keys.
type entryNode struct {
	line int
	node *yaml.Node
}

// readEntries reads the YAML of the file and returns the elements of its list.
func readEntries(p *problems, data []byte) []entryNode {
	docs, err := readDocuments(data)
	if err != nil {
		line, msg := locate(data, err)
		p.add(line, "", "not valid YAML: %s", msg)
		return nil
	}
	if len(docs) == 0 {
		p.add(1, "", "no watches in %s, add at least one entry", p.file)
		return nil
	}
	for _, doc := range docs[1:] {
		p.add(doc.Line, "", "a second YAML document; write all entries as one list, without --- between them")
	}
	root := docs[0]
	switch {
	case root.Kind != yaml.SequenceNode:
		p.add(root.Line, "", "must be a list of entries, each starting with a dash such as \"- group: example.com\", not %s",
			describe(root))
		return nil
	case len(root.Content) == 0:
		p.add(root.Line, "", "no watches in %s, add at least one entry", p.file)
		return nil
	}
	x := expander{problems: p, budget: maxNodes, active: map[*yaml.Node]bool{}}
	var entries []entryNode
	for _, n := range root.Content {
		if e := x.expand(n, 0); e != nil {
			entries = append(entries, entryNode{line: n.Line, node: e})
		}
		if x.exhausted() {
			return nil
		}
	}
	return entries
}

// readDocuments returns the roots of the documents that hold something.
func readDocuments(data []byte) (roots []*yaml.Node, err error) {
	// The library turns its own panics into errors. Should it ever let one
	// through, that is a file we can't read and no reason to crash.
	defer func() {
		if r := recover(); r != nil {
			roots, err = nil, fmt.Errorf("yaml: %v", r)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return roots, nil
		case err != nil:
			return nil, err
		}
		if len(doc.Content) == 1 && !isNull(doc.Content[0]) {
			roots = append(roots, doc.Content[0])
		}
	}
}

var yamlErrorPattern = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?((?s:.*))$`)

// syntaxMessage is the text of a YAML error without its line.
func syntaxMessage(err error) string {
	if err == nil {
		return ""
	}
	return yamlErrorPattern.FindStringSubmatch(err.Error())[2]
}

// locate finds the line of a syntax error. The library tells the line on which
// the surrounding block starts, or none. But it reads from front to back, so
// the line at which cutting the file begins to show the same error is the one.
func locate(data []byte, err error) (int, string) {
	msg := syntaxMessage(err)
	lines := bytes.SplitAfter(data, []byte("\n"))
	if n := len(lines); n > 1 && len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	ends := make([]int, len(lines)+1)
	for i, l := range lines {
		ends[i+1] = ends[i] + len(l)
	}
	fails := func(upTo int) bool {
		_, err := readDocuments(data[:ends[upTo]])
		return err != nil && syntaxMessage(err) == msg
	}
	line := len(lines)
	if len(lines) <= 500 && len(data) <= 32<<10 {
		for line > 1 && fails(line-1) {
			line--
		}
	} else {
		// Quicker, and right unless an earlier construct that spans lines gives the same error when cut.
		line = 1 + sort.Search(len(lines)-1, func(i int) bool { return fails(i + 1) })
	}
	if strings.Contains(msg, "tab character") || indentedByTab(lines[line-1]) {
		msg = "a tab in the indentation; use spaces"
	}
	return line, msg
}

func indentedByTab(line []byte) bool {
	indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
	return bytes.IndexByte(indent, '\t') >= 0
}

// Bounds of what aliases may expand to.
const (
	maxNodes = 100_000
	maxDepth = 64
)

// expander copies nodes with aliases and merge keys resolved.
type expander struct {
	problems *problems
	budget   int
	active   map[*yaml.Node]bool // anchors that are being expanded
}

func (x *expander) exhausted() bool { return x.budget <= 0 }

// expand returns a copy of n, or nil after an error.
func (x *expander) expand(n *yaml.Node, depth int) *yaml.Node {
	if x.exhausted() {
		return nil
	}
	if x.budget--; x.exhausted() {
		x.problems.add(n.Line, "", "more than %d values, aliases counted where they are used", maxNodes)
		return nil
	}
	if depth > maxDepth {
		x.problems.add(n.Line, "", "nested more than %d levels deep", maxDepth)
		return nil
	}
	if n.Kind == yaml.AliasNode {
		if n.Alias == nil || x.active[n.Alias] {
			x.problems.add(n.Line, "", "anchor %s contains itself", quote(n.Value))
			return nil
		}
		return x.expand(n.Alias, depth+1)
	}
	if n.Anchor != "" {
		x.active[n] = true
		defer delete(x.active, n)
	}
	out := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value, Line: n.Line, Column: n.Column}
	switch n.Kind {
	case yaml.SequenceNode:
		for _, c := range n.Content {
			if c = x.expand(c, depth+1); c != nil {
				out.Content = append(out.Content, c)
			}
		}
	case yaml.MappingNode:
		x.mapping(n, out, depth)
	default: // scalars have no content; aliases and documents were dealt with
	}
	return out
}

// mapping expands the pairs of n into out. What is merged in yields to the
// map's own keys, and earlier merges win over later ones.
func (x *expander) mapping(n, out *yaml.Node, depth int) {
	own := map[string]bool{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := x.expand(n.Content[i], depth+1), x.expand(n.Content[i+1], depth+1)
		switch {
		case key == nil || value == nil:
		case key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge":
			merged = append(merged, x.merges(key, value)...)
		default:
			own[key.Value] = true
			out.Content = append(out.Content, key, value)
		}
	}
	for _, m := range merged {
		for i := 0; i+1 < len(m.Content); i += 2 {
			if key := m.Content[i]; !own[key.Value] {
				own[key.Value] = true
				out.Content = append(out.Content, key, m.Content[i+1])
			}
		}
	}
}

// merges returns the maps that a merge key brings in.
func (x *expander) merges(key, value *yaml.Node) []*yaml.Node {
	maps := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		maps = value.Content
	}
	for _, m := range maps {
		if m.Kind != yaml.MappingNode {
			x.problems.add(key.Line, "", "\"<<\" must be followed by maps to merge, not %s", describe(m))
			return nil
		}
	}
	return maps
}
