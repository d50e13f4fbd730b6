// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"slices"
	"strings"
	"text/template/parse"
)

const (
	// unknown stands for what can't be told without a rendering.
	unknown = "\x00"
	// maxTexts bounds how many texts a piece may be: beyond, it is unknown.
	maxTexts = 64
	// maxIncludes bounds how deep named templates include each other.
	maxIncludes = 16
)

// piece is a part of what a template prints: one of several texts. Where it is
// in more than one line, it is one text.
type piece struct {
	texts []string
	file  *template
	pos   int
}

// reader reads what templates print, with both branches of every condition.
type reader struct{ all *templates }

// lines returns what a list of nodes prints, piece by piece. Branches that print
// lines of their own come one after the other; those within a line are texts of one piece.
func (r reader) lines(list *parse.ListNode, in *template, depth int) []piece {
	var out []piece
	if list == nil {
		return nil
	}
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.TextNode:
			out = append(out, piece{[]string{string(n.Text)}, in, int(n.Pos)})
		case *parse.ActionNode:
			if len(n.Pipe.Decl) > 0 {
				continue // sets a variable, prints nothing
			}
			if name, ok := included(n.Pipe); ok && startsLine(out) {
				if inner, ok := r.include(name, depth); ok && !inline(inner) {
					out = append(out, inner...)
					continue
				}
			}
			out = append(out, piece{r.pipe(n.Pipe, depth), in, int(n.Position())})
		case *parse.TemplateNode:
			inner, ok := r.include(n.Name, depth)
			switch {
			case ok && inline(inner):
				out = append(out, piece{r.texts(inner), in, int(n.Pos)})
			case ok && startsLine(out):
				out = append(out, inner...)
			default:
				out = append(out, piece{[]string{unknown}, in, int(n.Pos)})
			}
		case *parse.IfNode:
			out = append(out, r.branches(&n.BranchNode, in, depth)...)
		case *parse.WithNode:
			out = append(out, r.branches(&n.BranchNode, in, depth)...)
		case *parse.RangeNode:
			out = append(out, r.branches(&n.BranchNode, in, depth)...)
		}
	}
	return out
}

func (r reader) branches(n *parse.BranchNode, in *template, depth int) []piece {
	then, other := r.lines(n.List, in, depth), r.lines(n.ElseList, in, depth)
	if inline(then) && inline(other) {
		return []piece{{union(r.texts(then), r.texts(other)), in, int(n.Pos)}}
	}
	if len(other) == 0 {
		return then
	}
	between := piece{[]string{"\n"}, in, other[0].pos}
	return slices.Concat(then, []piece{between}, other)
}

// include returns what a named template prints.
func (r reader) include(name string, depth int) ([]piece, bool) {
	named, ok := r.all.named[name]
	if !ok || depth >= maxIncludes {
		return nil, false
	}
	return r.lines(named.tree.Root, named.file, depth+1), true
}

// included is the name of the template that a pipe includes and prints as it is.
func included(p *parse.PipeNode) (string, bool) {
	first := p.Cmds[0]
	if function(first) != "include" || len(first.Args) < 2 {
		return "", false
	}
	for _, c := range p.Cmds[1:] {
		switch function(c) {
		case "trim", "toString":
		case "indent", "nindent":
			if n, ok := c.Args[len(c.Args)-1].(*parse.NumberNode); !ok || n.Int64 != 0 {
				return "", false
			}
		default:
			return "", false
		}
	}
	return literal(first.Args[1])
}

// inline tells whether the pieces stay within a line.
func inline(pieces []piece) bool {
	return !slices.ContainsFunc(pieces, func(p piece) bool {
		return slices.ContainsFunc(p.texts, func(s string) bool { return strings.Contains(s, "\n") })
	})
}

// startsLine tells whether what comes after the pieces begins a line.
func startsLine(pieces []piece) bool {
	for _, p := range slices.Backward(pieces) {
		if text := p.texts[0]; len(p.texts) > 1 || text != "" {
			return len(p.texts) == 1 && strings.HasSuffix(text, "\n")
		}
	}
	return true
}

// texts are all that the pieces can be together.
func (r reader) texts(pieces []piece) []string {
	out := []string{""}
	for _, p := range pieces {
		var next []string
		for _, before := range out {
			for _, text := range p.texts {
				next = append(next, before+text)
			}
		}
		if out = union(next, nil); len(out) > maxTexts {
			return []string{unknown}
		}
	}
	return out
}

func union(a, b []string) []string {
	var out []string
	for _, s := range slices.Concat(a, b) {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// pipe returns the texts that a pipe may print.
func (r reader) pipe(p *parse.PipeNode, depth int) []string {
	texts := r.command(p.Cmds[0], depth)
	for _, c := range p.Cmds[1:] {
		switch function(c) {
		case "quote", "squote", "trim", "toString", "nospace":
		case "default":
			texts = union(r.arguments(c.Args[1:], depth), texts)
		case "ternary":
			texts = r.arguments(c.Args[1:], depth)
		case "fail":
			return []string{""}
		default:
			return []string{unknown}
		}
	}
	return texts
}

// command returns the texts that a command may give.
func (r reader) command(c *parse.CommandNode, depth int) []string {
	args := c.Args[1:]
	switch name := function(c); {
	case name == "" && len(args) == 0:
		return r.argument(c.Args[0], depth)
	case name == "fail":
		return []string{""}
	case slices.Contains([]string{"print", "toString", "quote", "squote", "trim"}, name) && len(args) == 1:
		return r.argument(args[0], depth)
	case name == "required" && len(args) == 2:
		return r.argument(args[1], depth)
	case name == "ternary" && len(args) == 3:
		return r.arguments(args[:2], depth)
	case name == "default", name == "coalesce":
		return r.arguments(args, depth)
	case name == "include" && len(args) > 0:
		if of, ok := literal(args[0]); ok {
			return r.included(of, depth)
		}
	}
	return []string{unknown}
}

func (r reader) arguments(args []parse.Node, depth int) []string {
	var out []string
	for _, arg := range args {
		out = union(out, r.argument(arg, depth))
	}
	return out
}

func (r reader) argument(n parse.Node, depth int) []string {
	if text, ok := literal(n); ok {
		return []string{text}
	}
	if p, ok := n.(*parse.PipeNode); ok && len(p.Decl) == 0 {
		return r.pipe(p, depth)
	}
	return []string{unknown}
}

// included returns the texts that a named template may give as a value in a line.
func (r reader) included(name string, depth int) []string {
	named, ok := r.all.named[name]
	if !ok || depth >= maxIncludes {
		return []string{unknown}
	}
	var out []string
	for _, text := range r.alternatives(named.tree.Root, depth+1) {
		if text = strings.TrimSpace(text); strings.Contains(text, "\n") {
			text = unknown
		}
		out = union(out, []string{text})
	}
	return out
}

// alternatives are all texts of a list of nodes, of which each condition prints one branch.
func (r reader) alternatives(list *parse.ListNode, depth int) []string {
	if list == nil {
		return []string{""}
	}
	var pieces []piece
	for _, node := range list.Nodes {
		var texts []string
		switch n := node.(type) {
		case *parse.TextNode:
			texts = []string{string(n.Text)}
		case *parse.ActionNode:
			if len(n.Pipe.Decl) > 0 {
				continue
			}
			texts = r.pipe(n.Pipe, depth)
		case *parse.TemplateNode:
			texts = r.included(n.Name, depth)
		case *parse.IfNode:
			texts = union(r.alternatives(n.List, depth), r.alternatives(n.ElseList, depth))
		case *parse.WithNode:
			texts = union(r.alternatives(n.List, depth), r.alternatives(n.ElseList, depth))
		case *parse.CommentNode:
			continue
		default:
			texts = []string{unknown}
		}
		pieces = append(pieces, piece{texts: texts})
	}
	return r.texts(pieces)
}
