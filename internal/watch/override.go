// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxListSlots bounds the lists that indexes in paths call for.
const maxListSlots = 100_000

// overrideReader reads overrideValues into nested maps.
type overrideReader struct {
	*problems
	expand textExpander
	slots  int
}

func newOverrideReader(p *problems) overrideReader {
	return overrideReader{problems: p, expand: newTextExpander()}
}

// A step of a path is a name in a map or an index in a list.
type step struct {
	name  string
	index int // -1 for a name
}

// overrideKey is a key of overrideValues, or of a map in it, for messages.
type overrideKey struct {
	path string
	line int
}

// branch is a node of the tree that paths make, before it becomes values.
type branch struct {
	key      overrideKey // that first called for it
	leaf     bool
	value    any // of a leaf
	children map[step]*branch
	list     bool // the children are all indexes; else they are all names
	length   int  // of the list
}

// read returns the values of n, or nil when there are none or n isn't a map.
func (r *overrideReader) read(n *yaml.Node) map[string]any {
	if n.Kind != yaml.MappingNode {
		r.add(n.Line, "", "\"overrideValues\" must be a map from paths such as image.tag to values, not %s", describe(n))
		return nil
	}
	root := &branch{}
	d := decoder{problems: r.problems}
	d.pairs(n, func(key, value *yaml.Node) {
		path, err := parsePath(key.Value)
		if err != nil {
			r.add(key.Line, "", "%s is not the path of a value such as image.tag or list[0].name: %v", quote(key.Value), err)
			return
		}
		k := overrideKey{path: key.Value, line: key.Line}
		if b := r.at(root, path, k); b != nil {
			r.set(b, k, value, true)
		}
	})
	if len(root.children) == 0 {
		return nil
	}
	values, _ := r.build(root).(map[string]any)
	return values
}

// at returns the branch at the end of path, grown where it is missing, or nil after an error.
func (r *overrideReader) at(b *branch, path []step, key overrideKey) *branch {
	for _, s := range path {
		if b = r.child(b, s, key); b == nil {
			return nil
		}
	}
	return b
}

func (r *overrideReader) child(b *branch, s step, key overrideKey) *branch {
	if b.leaf || len(b.children) > 0 && b.list != (s.index >= 0) {
		r.conflict(b, key)
		return nil
	}
	c := b.children[s]
	if c == nil {
		if b.children == nil {
			b.children = map[step]*branch{}
		}
		b.list = s.index >= 0
		if grown := s.index + 1 - b.length; grown > 0 {
			if r.slots+grown > maxListSlots {
				r.add(key.line, "", "override value %s: the indexes of lists call for more than %d items",
					quote(key.path), maxListSlots)
				return nil
			}
			r.slots += grown
			b.length += grown
		}
		c = &branch{key: key}
		b.children[s] = c
	}
	return c
}

func (r *overrideReader) conflict(b *branch, key overrideKey) {
	r.add(key.line, "", "override value %s conflicts with %s on line %d; set it once",
		quote(key.path), quote(b.key.path), b.key.line)
}

// set gives b the value of a node. Maps are merged with what other paths set.
func (r *overrideReader) set(b *branch, key overrideKey, value *yaml.Node, top bool) {
	if value.Kind == yaml.MappingNode && len(value.Content) > 0 {
		d := decoder{problems: r.problems}
		d.pairs(value, func(k, v *yaml.Node) {
			inner := overrideKey{path: key.path + "." + k.Value, line: k.Line}
			if c := r.child(b, step{name: k.Value, index: -1}, inner); c != nil {
				r.set(c, inner, v, false)
			}
		})
		return
	}
	if b.leaf || len(b.children) > 0 {
		r.conflict(b, key)
		return
	}
	v, err := r.plain(value, top)
	if err != nil {
		r.add(key.line, "", "override value %s: %v", quote(key.path), err)
		return
	}
	b.leaf, b.value = true, v
}

// plain returns the value of a node outside of any path.
func (r *overrideReader) plain(n *yaml.Node, top bool) (any, error) {
	switch n.Kind {
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			v, err := r.plain(c, false)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		m := map[string]any{}
		var first error
		d := decoder{problems: r.problems}
		d.pairs(n, func(key, value *yaml.Node) {
			v, err := r.plain(value, false)
			if err != nil && first == nil {
				first = fmt.Errorf("%s: %w", quote(key.Value), err)
			}
			m[key.Value] = v
		})
		return m, first
	default:
		return r.expand.scalar(n, top)
	}
}

// build turns branches into maps, lists and values. An index that no path names is null.
func (r *overrideReader) build(b *branch) any {
	switch {
	case b.leaf || len(b.children) == 0:
		return b.value
	case !b.list:
		m := make(map[string]any, len(b.children))
		for s, c := range b.children {
			m[s.name] = r.build(c)
		}
		return m
	}
	list := make([]any, b.length)
	for s, c := range b.children {
		list[s.index] = r.build(c)
	}
	return list
}

// parsePath reads a path as helm --set does: names separated by dots, each
// followed by any number of indexes, and a backslash before a character that
// is part of a name.
func parsePath(s string) ([]step, error) {
	var path []step
	var name strings.Builder
	named := false // the current segment has a name, or an index after one
	end := func() error {
		if name.Len() > 0 {
			path = append(path, step{name: name.String(), index: -1})
			name.Reset()
			named = true
		}
		if !named {
			return fmt.Errorf("a name is empty")
		}
		return nil
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '.':
			if err := end(); err != nil {
				return nil, err
			}
			named = false
		case c == '[':
			if err := end(); err != nil {
				return nil, err
			}
			digits, _, closed := strings.Cut(s[i+1:], "]")
			index, err := strconv.ParseUint(digits, 10, 31)
			if !closed || err != nil || index >= maxListSlots {
				return nil, fmt.Errorf("an index must be a number in brackets, such as [0]")
			}
			path = append(path, step{index: int(index)})
			i += len(digits) + 1
		case c == ',' || c == '=' || c == ']':
			return nil, fmt.Errorf("put a backslash before %q if it belongs to a name", c)
		case named:
			return nil, fmt.Errorf("a dot must follow the index")
		case c == '\\' && i+1 < len(s):
			i++
			name.WriteByte(s[i])
		default:
			name.WriteByte(c)
		}
	}
	return path, end()
}
