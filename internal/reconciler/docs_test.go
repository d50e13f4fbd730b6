// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chartgate/chartgate/internal/gate"
)

// documented are the prefixes of constants whose values docs/conditions.md explains.
var documented = []string{"Condition", "Reason", "Event"}

// TestConditionsAreDocumented lists every condition type, reason and event that
// the code can set.
func TestConditionsAreDocumented(t *testing.T) {
	content, err := os.ReadFile("../../docs/conditions.md")
	if err != nil {
		t.Fatal(err)
	}
	names := gate.Reasons()
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/v1alpha1/conditions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if slices.ContainsFunc(documented, func(p string) bool { return strings.HasPrefix(name.Name, p) }) {
				names = append(names, literal(t, spec.Values[i]))
			}
		}
		return true
	})
	if len(names) < 60 {
		t.Errorf("only %d names were found", len(names))
	}
	for _, name := range names {
		if !strings.Contains(string(content), "`"+name+"`") {
			t.Errorf("docs/conditions.md says nothing of `%s`", name)
		}
	}
}

// TestReasonsAreConstants makes sure that the list above is whole: nowhere is a
// type or reason written out.
func TestReasonsAreConstants(t *testing.T) {
	setters := []string{"Condition", "Stalled", "Progressing", "Unready", "event"}
	for _, dir := range []string{".", "../status", "../gate"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		fset := token.NewFileSet()
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(fset, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(setters, f.Sel.Name) {
						for _, arg := range n.Args[:min(len(n.Args), 3)] {
							if l, ok := arg.(*ast.BasicLit); ok && l.Kind == token.STRING && camel(literal(t, l)) {
								t.Errorf("%s: %s is not a constant", fset.Position(l.Pos()), l.Value)
							}
						}
					}
				case *ast.KeyValueExpr:
					key, isKey := n.Key.(*ast.Ident)
					if l, ok := n.Value.(*ast.BasicLit); ok && isKey && strings.EqualFold(key.Name, "reason") {
						t.Errorf("%s: reason %s is not a constant", fset.Position(l.Pos()), l.Value)
					}
				}
				return true
			})
		}
	}
}

// camel tells whether a text may be a reason: one word with a capital letter.
func camel(s string) bool {
	return s != "" && s[0] >= 'A' && s[0] <= 'Z' && !strings.ContainsAny(s, " %")
}

func literal(t *testing.T, e ast.Expr) string {
	t.Helper()
	l, ok := e.(*ast.BasicLit)
	if !ok {
		t.Fatalf("%T is no literal", e)
	}
	s, err := strconv.Unquote(l.Value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
