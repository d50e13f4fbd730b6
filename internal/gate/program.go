// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/lru"
)

const (
	// maxPrograms bounds how many compiled expressions are kept.
	maxPrograms = 512
	// maxExpression bounds an expression, in bytes. CRDs of Chartgate's own refuse longer ones.
	maxExpression = 4096
)

// celVersion is the version of Kubernetes whose CEL libraries expressions may use.
var celVersion = version.MajorMinor(1, 37)

// program is a compiled expression.
type program struct {
	program cel.Program
	// usesNow tells whether the expression looks at the time.
	usesNow bool
}

// fault says why an expression does not compile, and where.
type fault struct {
	line, column  int
	problem, hint string
}

// programs compiles expressions, and keeps what it compiled last. What does
// not compile is kept as well.
type programs struct {
	once sync.Once
	// with and without have the variable object, and lack it.
	with, without *cel.Env
	err           error

	kept *lru.Cache
}

// programKey tells compiled expressions apart.
type programKey struct {
	source string
	// object tells whether there is a variable object.
	object bool
}

// compiled is what is kept of one expression.
type compiled struct {
	program *program
	fault   *fault
}

func newPrograms() *programs { return &programs{kept: lru.New(maxPrograms)} }

func (p *programs) get(key programKey) (*program, *fault) {
	if len(key.source) > maxExpression {
		return nil, &fault{problem: fmt.Sprintf("is longer than %d bytes", maxExpression)}
	}
	if strings.TrimSpace(key.source) == "" {
		return nil, &fault{problem: "is missing", hint: "write one in CEL, such as object.status.readyReplicas > 1"}
	}
	if kept, ok := p.kept.Get(key); ok {
		if c, ok := kept.(compiled); ok {
			return c.program, c.fault
		}
	}
	program, fault := p.compile(key)
	p.kept.Add(key, compiled{program, fault})
	return program, fault
}

// environments makes the CEL environments, once: that takes a while.
func (p *programs) environments() error {
	p.once.Do(func() {
		options := []cel.EnvOption{cel.Variable(varSelf, cel.DynType), cel.Variable(varNow, cel.TimestampType)}
		if p.without, p.err = newEnvironment(options...); p.err == nil {
			p.with, p.err = newEnvironment(append(options, cel.Variable(varObject, cel.DynType))...)
		}
	})
	return p.err
}

func newEnvironment(options ...cel.EnvOption) (*cel.Env, error) {
	set, err := environment.MustBaseEnvSet(celVersion).Extend(environment.VersionedOptions{
		IntroducedVersion: celVersion, EnvOptions: options,
	})
	if err != nil {
		return nil, fmt.Errorf("CEL environment: %w", err)
	}
	return set.NewExpressionsEnv(), nil
}

func (p *programs) compile(key programKey) (*program, *fault) {
	if err := p.environments(); err != nil {
		return nil, &fault{problem: err.Error()}
	}
	env := p.without
	if key.object {
		env = p.with
	}
	checked, issues := env.Compile(key.source)
	if issues.Err() != nil {
		return nil, faultOf(issues)
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, &fault{line: 1, column: 1, problem: fmt.Sprintf("yields a value of type %s, neither true nor false", t), hint: "compare it to something, as in size(self.spec.hosts) > 0"}
	}
	compiled, err := env.Program(checked, cel.CostLimit(celconfig.PerCallLimit), cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return nil, &fault{problem: "can't be compiled: " + err.Error()}
	}
	out := &program{program: compiled}
	for _, node := range ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.KindMatcher(ast.IdentKind)) {
		// A variable of a comprehension may have the same name: then the gate is looked at too often.
		out.usesNow = out.usesNow || node.AsIdent() == varNow
	}
	return out, nil
}

// faultOf is the first of the compiler's issues.
func faultOf(issues *cel.Issues) *fault {
	all := issues.Errors()
	if len(all) == 0 {
		return &fault{problem: clip(issues.Err().Error())}
	}
	first := all[0]
	f := &fault{line: first.Location.Line(), column: first.Location.Column() + 1, problem: clip(first.Message)}
	switch {
	case strings.Contains(f.problem, "undeclared reference to 'object'"):
		f.problem = strings.TrimSuffix(f.problem, " (in container '')")
		f.hint = "the gate has no ref: add one with apiVersion, kind and name of the object, or use self for the resource itself"
	case strings.Contains(f.problem, "undeclared reference"):
		f.problem = strings.TrimSuffix(f.problem, " (in container '')")
		f.hint = "in scope are object (if the gate has a ref), self, now and the functions of the Kubernetes CEL libraries"
	case strings.Contains(f.problem, "no matching overload"):
		f.hint = "the types don't fit; convert one, as in int(x) or string(x)"
	case strings.HasPrefix(f.problem, "Syntax error"):
		f.hint = "see kubernetes.io/docs/reference/using-api/cel for what can be written"
	}
	if len(all) > 1 {
		f.problem += fmt.Sprintf(" (and %d more)", len(all)-1)
	}
	return f
}
