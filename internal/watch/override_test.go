// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOverrideValuesAreTyped(t *testing.T) {
	t.Setenv("WATCH_IMAGE", "quay.io/team/app:v2")
	t.Setenv("WATCH_REPLICAS", "3")
	t.Setenv("WATCH_LIST", "a,b=c")
	t.Setenv("WATCH_ON", "TRUE")
	t.Setenv("WATCH_JSON", `{"auths":"x"}`)
	tests := map[string]struct {
		in   string // under overrideValues, in flow or block style
		want map[string]any
	}{
		"YAML types are kept": {
			in: `
    i: 1000000
    big: 9007199254740993
    hex: 0x10
    f: 1.5
    b: false
    word: off
    n: null
    tilde: ~
    day: 2026-01-02
    bin: !!binary aGk=
    l: [1, "2", true]
    m: {a: "true", b: {}, c: []}
    e: {}
`,
			want: map[string]any{
				"i": int64(1000000), "big": int64(9007199254740993), "hex": int64(16), "f": 1.5, "b": false, "word": false,
				"n": nil, "tilde": nil, "day": "2026-01-02", "bin": "hi", "l": []any{int64(1), "2", true},
				"m": map[string]any{"a": "true", "b": map[string]any{}, "c": []any{}}, "e": map[string]any{},
			},
		},
		"strings right under overrideValues are typed as helm --set types them": {
			in: `
    int: "3"
    negative: '-3'
    zero: "0"
    leading: "007"
    float: "1.10"
    long: "99999999999999999999"
    yes: "True"
    no: 'false'
    nothing: "NULL"
    empty: ""
    text: plain text
    quotedWord: "yes"
`,
			want: map[string]any{
				"int": int64(3), "negative": int64(-3), "zero": int64(0), "leading": "007", "float": "1.10",
				"long": "99999999999999999999", "yes": true, "no": false, "nothing": nil, "empty": "", "text": "plain text",
				"quotedWord": "yes",
			},
		},
		"a comma ends nothing": {
			in: `
    a: a,b=c
    b: 'a\,b'
    c: $WATCH_LIST
    d: "1,2"
    e: \d+\\
`,
			want: map[string]any{"a": "a,b=c", "b": "a,b", "c": "a,b=c", "d": "1,2", "e": `\d+\`},
		},
		"braces make a list, as in helm --set, and a JSON object stays text": {
			in: `
    a: "{x,2,y\\,z}"
    b: $WATCH_JSON
    c: "{a}b"
    d: "{open"
    e: '\{a,b\}'
    f: "{}"
    g: !!str "{a,b}"
    h: ["{a,b}"]
`,
			want: map[string]any{
				"a": []any{"x", int64(2), "y,z"}, "b": `{"auths":"x"}`, "c": "{a}b", "d": "{open", "e": "{a,b}", "f": "{}",
				"g": "{a,b}", "h": []any{"{a,b}"},
			},
		},
		"a tag decides the type": {
			in: `
    a: !!str 3
    b: !!str "true"
    c: !!str 'a\,b'
    d: !!str $WATCH_REPLICAS
    e: !!int "12"
    f: !!int '{{ add $WATCH_REPLICAS 1 }}'
    g: {port: !!int $WATCH_REPLICAS}
    h: !!float "2"
    i: !!bool "true"
`,
			want: map[string]any{
				"a": "3", "b": "true", "c": `a\,b`, "d": "3", "e": int64(12), "f": int64(4),
				"g": map[string]any{"port": int64(3)}, "h": float64(2), "i": true,
			},
		},
		"the environment is filled in, then templates are executed": {
			in: `
    image: $WATCH_IMAGE
    braces: pre-${WATCH_REPLICAS}-post
    repo: '{{ ("$WATCH_IMAGE" | split ":")._0 }}'
    tag: '{{ ("$WATCH_IMAGE" | split ":")._1 | upper }}'
    replicas: $WATCH_REPLICAS
    on: ${WATCH_ON}
    unset: $WATCH_NOT_SET
    dollar: '{{ "\x24" }}HOME'
    in.list: ["$WATCH_REPLICAS"]
    in.map: {a: $WATCH_REPLICAS}
`,
			want: map[string]any{
				"image": "quay.io/team/app:v2", "braces": "pre-3-post", "repo": "quay.io/team/app", "tag": "V2",
				"replicas": int64(3), "on": true, "unset": "", "dollar": "$HOME",
				"in": map[string]any{"list": []any{"3"}, "map": map[string]any{"a": "3"}},
			},
		},
		"keys are paths": {
			in: `
    image.tag: v1
    image.pull.policy: Always
    image: {repository: r}
    list[0]: a
    list[2].name: c
    grid[0][1]: 5
    nodeSelector.kubernetes\.io/role: web
    nodeSelector: {kubernetes.io/os: linux}
    a\,b\=c: 1
`,
			want: map[string]any{
				"image": map[string]any{"tag": "v1", "pull": map[string]any{"policy": "Always"}, "repository": "r"},
				"list":  []any{"a", nil, map[string]any{"name": "c"}},
				"grid":  []any{[]any{nil, int64(5)}},
				"nodeSelector": map[string]any{
					"kubernetes.io/role": "web", "kubernetes.io/os": "linux",
				},
				"a,b=c": int64(1),
			},
		},
		"aliases and merge keys": {
			in: `
    a: &a {x: 1, y: 2}
    b: {<<: *a, y: 3}
    c: [*a]
`,
			want: map[string]any{
				"a": map[string]any{"x": int64(1), "y": int64(2)},
				"b": map[string]any{"x": int64(1), "y": int64(3)},
				"c": []any{map[string]any{"x": int64(1), "y": int64(2)}},
			},
		},
		"an empty map is none": {in: " {}\n", want: nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse("watches.yaml", []byte(guestbook+"  overrideValues:"+tc.in), known)
			if err != nil {
				t.Fatalf("Parse failed:\n%v", err)
			}
			if diff := cmp.Diff(tc.want, got[0].OverrideValues); diff != "" {
				t.Errorf("values differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAliasedValuesAreNotShared(t *testing.T) {
	in := guestbook + "  overrideValues:\n    a: [&x {k: 1}]\n    b: [*x]\n"
	got, err := Parse("watches.yaml", []byte(in), known)
	if err != nil {
		t.Fatal(err)
	}
	values := got[0].OverrideValues
	values["a"].([]any)[0].(map[string]any)["k"] = "changed"
	if k := values["b"].([]any)[0].(map[string]any)["k"]; k != int64(1) {
		t.Errorf("b changed with a, to %v", k)
	}
}

func TestErrorsShowNothingFromTheEnvironment(t *testing.T) {
	const secret = "hunter2"
	t.Setenv("WATCH_SECRET", secret+`" {{`)
	t.Setenv("WATCH_PLAIN", secret)
	for name, tc := range map[string]struct{ value, want string }{
		"a template that a variable breaks": {
			value: `'{{ "$WATCH_SECRET" | upper }}'`,
			want:  `watches.yaml:6: override value "a": not a template once $WATCH_SECRET is filled in`,
		},
		"a template that fails on a variable": {
			value: `'{{ ("$WATCH_PLAIN" | split ":").x.y.z | fail }}'`,
			want:  `watches.yaml:6: override value "a": the template fails with $WATCH_PLAIN filled in`,
		},
		"a template that is broken anyway": {
			value: `'{{ ("$WATCH_PLAIN" | split ":")._1'`,
			want:  `watches.yaml:6: override value "a": the template fails: unclosed action`,
		},
		"a template that reads a variable": {
			value: `'{{ env "WATCH_PLAIN" | fail }}'`,
			want:  `watches.yaml:6: override value "a": the template, which reads the environment, fails`,
		},
		"a tag that doesn't fit": {
			value: `!!int $WATCH_PLAIN`,
			want:  `watches.yaml:6: override value "a": not a whole number, as its tag says`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("watches.yaml", []byte(guestbook+"  overrideValues:\n    a: "+tc.value+"\n"), known)
			if err == nil {
				t.Fatal("no error")
			}
			if err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Error("the secret is shown")
			}
		})
	}
}

func TestRandomFunctionsAreNotOffered(t *testing.T) {
	_, err := Parse("w", []byte(guestbook+"  overrideValues:\n    a: '{{ randAlphaNum 5 }}'\n"), known)
	if err == nil || !strings.Contains(err.Error(), `function "randAlphaNum" not defined`) {
		t.Errorf("got %v", err)
	}
}

func TestOverrideValueErrorsNameTheLine(t *testing.T) {
	testErrors(t, map[string]errorTest{
		"override values that conflict": {
			in: guestbook + `  overrideValues:
    a: 1
    a.b: 2
    c.d: 1
    c: {d: 2, e: 3}
    l[0]: x
    l: [y]
    m[0]: x
    m.n: y
    "g.": 1
    h[x]: 1
    "i[0]j": 1
    k,l: 1
    dup: 1
    dup: 2
`,
			want: []string{
				`:7: override value "a.b" conflicts with "a" on line 6; set it once`,
				`:9: override value "c.d" conflicts with "c.d" on line 8; set it once`,
				`:11: override value "l" conflicts with "l[0]" on line 10; set it once`,
				`:13: override value "m.n" conflicts with "m[0]" on line 12; set it once`,
				`:14: "g." is not the path of a value such as image.tag or list[0].name: a name is empty`,
				`:15: "h[x]" is not the path of a value such as image.tag or list[0].name: an index must be a number in brackets, such as [0]`,
				`:16: "i[0]j" is not the path of a value such as image.tag or list[0].name: a dot must follow the index`,
				`:17: "k,l" is not the path of a value such as image.tag or list[0].name: put a backslash before ',' if it belongs to a name`,
				`:19: duplicate field "dup", already set on line 18`,
			},
		},
		"override values that are no values": {
			in: guestbook + `  overrideValues:
    a: 99999999999999999999
    b: .inf
    c: !!int x
    d: !custom x
    e: '{{ split "a" }}'
    f: '{{ nosuch }}'
    g: {h: ['{{']}
    i[70000]: 1
    j[70000]: 1
`,
			want: []string{
				`:6: override value "a": a whole number of more than 64 bits; put it in quotes to pass it as text`,
				`:7: override value "b": not a number that values can hold; tag it !!str to pass it as text`,
				`:8: override value "c": not a whole number, as its tag says`,
				`:9: override value "d": unknown tag "!custom"`,
				`:10: override value "e": the template fails: at <split>: wrong number of args for split: want 2 got 1`,
				`:11: override value "f": the template fails: function "nosuch" not defined`,
				`:12: override value "g.h": the template fails: unclosed action`,
				`:14: override value "j[70000]": the indexes of lists call for more than 100000 items`,
			},
		},
	})
}
