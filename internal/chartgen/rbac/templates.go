// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template/parse"

	"helm.sh/helm/v3/pkg/chart"
)

// template is one parsed file.
type template struct {
	// file as people know it: the chart's path and the file's name in it.
	file string
	// prints tells whether the file makes objects; partials and NOTES.txt don't.
	prints bool
	text   []byte
	root   *parse.Tree
	// defined are all the trees of the file, the named ones too.
	defined map[string]*parse.Tree
}

// line of an offset in the file, from 1.
func (t *template) line(pos int) int {
	return bytes.Count(t.text[:min(max(pos, 0), len(t.text))], []byte("\n")) + 1
}

// templates are the files of a chart and its subcharts. They share their named templates.
type templates struct {
	files []*template
	named map[string]namedTemplate
}

type namedTemplate struct {
	tree *parse.Tree
	file *template
}

// parseTemplates reads the templates of the chart and its subcharts.
func parseTemplates(c *chart.Chart, chartPath string) (*templates, error) {
	all := &templates{named: map[string]namedTemplate{}}
	if err := all.add(c, chartPath); err != nil {
		return nil, err
	}
	slices.SortFunc(all.files, func(a, b *template) int { return strings.Compare(a.file, b.file) })
	return all, nil
}

func (a *templates) add(c *chart.Chart, at string) error {
	for _, sub := range c.Dependencies() { // first: a parent's named template goes before
		if err := a.add(sub, path.Join(at, "charts", sub.Name())); err != nil {
			return err
		}
	}
	library := c.Metadata.Type == "library"
	for _, f := range c.Templates {
		base := path.Base(f.Name)
		t := &template{
			file: path.Join(at, f.Name), text: f.Data, defined: map[string]*parse.Tree{},
			prints: !library && !strings.HasPrefix(base, "_") && base != notesFile,
		}
		t.root = parse.New(t.file)
		t.root.Mode = parse.SkipFuncCheck // which functions there are is Helm's matter
		if _, err := t.root.Parse(string(f.Data), "", "", t.defined); err != nil {
			return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "template: ")) // has file and line
		}
		for _, name := range sortedKeys(t.defined) {
			if name != t.file {
				a.named[name] = namedTemplate{t.defined[name], t}
			}
		}
		a.files = append(a.files, t)
	}
	return nil
}

// text returns the source of a file, as a rendering names it: thing/templates/all.yaml.
func (a *templates) text(file string) string {
	for _, t := range a.files {
		if t.file == file {
			return string(t.text)
		}
	}
	return ""
}

// walk calls f with every command of every file.
func (a *templates) walk(f func(t *template, c *parse.CommandNode)) {
	for _, t := range a.files {
		for _, name := range sortedKeys(t.defined) {
			if tree := t.defined[name]; tree.Root != nil {
				walk(tree.Root, func(c *parse.CommandNode) { f(t, c) })
			}
		}
	}
}

func walk(node parse.Node, f func(*parse.CommandNode)) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			walk(child, f)
		}
	case *parse.ActionNode:
		walk(n.Pipe, f)
	case *parse.TemplateNode:
		if n.Pipe != nil {
			walk(n.Pipe, f)
		}
	case *parse.IfNode:
		walkBranch(&n.BranchNode, f)
	case *parse.WithNode:
		walkBranch(&n.BranchNode, f)
	case *parse.RangeNode:
		walkBranch(&n.BranchNode, f)
	case *parse.PipeNode:
		if n == nil {
			return
		}
		for _, c := range n.Cmds {
			walk(c, f)
		}
	case *parse.CommandNode:
		f(n)
		for _, arg := range n.Args {
			walk(arg, f)
		}
	case *parse.ChainNode:
		walk(n.Node, f)
	}
}

func walkBranch(n *parse.BranchNode, f func(*parse.CommandNode)) {
	walk(n.Pipe, f)
	walk(n.List, f)
	walk(n.ElseList, f)
}

// function is the name of the function that a command calls; empty if it calls none.
func function(c *parse.CommandNode) string {
	if len(c.Args) == 0 {
		return ""
	}
	if id, ok := c.Args[0].(*parse.IdentifierNode); ok {
		return id.Ident
	}
	return ""
}

// literal is the text of a string, where the node is one.
func literal(n parse.Node) (string, bool) {
	switch s := n.(type) {
	case *parse.StringNode:
		return s.Text, true
	case *parse.PipeNode:
		if len(s.Decl) == 0 && len(s.Cmds) == 1 && len(s.Cmds[0].Args) == 1 {
			return literal(s.Cmds[0].Args[0])
		}
	}
	return "", false
}

// askedVersions are the API versions that templates ask the cluster for by .Capabilities.APIVersions.Has.
func (a *templates) askedVersions() []string {
	asked := map[string]bool{}
	a.walk(func(_ *template, c *parse.CommandNode) {
		if len(c.Args) != 2 {
			return
		}
		var idents []string
		switch n := c.Args[0].(type) {
		case *parse.FieldNode:
			idents = n.Ident
		case *parse.VariableNode:
			idents = n.Ident
		case *parse.ChainNode:
			idents = n.Field
		}
		if len(idents) < 1 || idents[len(idents)-1] != "Has" {
			return
		}
		if version, ok := literal(c.Args[1]); ok {
			asked[version] = true
		}
	})
	return sortedKeys(asked)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
