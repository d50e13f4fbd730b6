// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// parse reads flags as the command does.
func parse(t *testing.T, args ...string) *options {
	t.Helper()
	o := &options{}
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	o.addFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestNamespacesOfFlagAndEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		env  string
		args []string
		want []string
	}{
		"all":                      {},
		"of the environment":       {env: "one", want: []string{"one"}},
		"several":                  {env: "one, two,", want: []string{"one", "two"}},
		"of the flag":              {args: []string{"--watch-namespaces=one,two"}, want: []string{"one", "two"}},
		"a flag given twice":       {args: []string{"--watch-namespaces=one", "--watch-namespaces=two"}, want: []string{"one", "two"}},
		"the flag goes before":     {env: "one", args: []string{"--watch-namespaces=two"}, want: []string{"two"}},
		"an empty flag is no flag": {env: "one", args: []string{"--watch-namespaces="}, want: []string{"one"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(WatchNamespaceEnv, c.env)
			o := parse(t, c.args...)
			if err := o.validate(); err != nil {
				t.Fatal(err)
			}
			if got := o.namespaces(); !slices.Equal(got, c.want) {
				t.Errorf("namespaces %q, want %q", got, c.want)
			}
		})
	}
}

func TestFlagsThatCannotWorkAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ flag, want string }{
		"no workers":           {"--max-concurrent-reconciles=0", "--max-concurrent-reconciles has to be at least 1, and is 0"},
		"a negative period":    {"--reconcile-period=-1s", "--reconcile-period must not be negative"},
		"no time":              {"--timeout=0", "--timeout has to be above 0"},
		"no account's name":    {"--default-service-account=A b", `--default-service-account has to be the name of a ServiceAccount, and is "A b"`},
		"no namespace's name":  {"--watch-namespaces=one,Two", `--watch-namespaces and $WATCH_NAMESPACE have to name namespaces, and say ["one" "Two"]`},
		"tokens in the clear":  {"--metrics-require-rbac", "--metrics-require-rbac needs --metrics-secure"},
		"a port that can't be": {"--webhook-port=70000", "--webhook-port has to be from 1 to 65535"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := parse(t, c.flag).validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
