// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"strings"
	"testing"
)

func TestFileErrorsNameTheLine(t *testing.T) {
	testErrors(t, map[string]errorTest{
		"an empty file":           {in: "", want: []string{`:1: no watches in watches.yaml, add at least one entry`}},
		"a file of comments":      {in: "# a\n# b\n", want: []string{`:1: no watches in watches.yaml, add at least one entry`}},
		"an empty list":           {in: "\n\n[]\n", want: []string{`:3: no watches in watches.yaml, add at least one entry`}},
		"a null document":         {in: "---\n", want: []string{`:1: no watches in watches.yaml, add at least one entry`}},
		"a map instead of a list": {in: "# x\ngroup: a\n", want: []string{`:2: must be a list of entries, each starting with a dash such as "- group: example.com", not a map`}},
		"a second document": {
			in:   guestbook + "---\n" + guestbook,
			want: []string{`:6: a second YAML document; write all entries as one list, without --- between them`},
		},
		"a tab": {
			in:   "- group: a\n  version: v1\n\tkind: b\n",
			want: []string{`:3: not valid YAML: a tab in the indentation; use spaces`},
		},
		"a tab in the first field": {
			in:   "- group: a\n  x:\n\t\ty: b\n",
			want: []string{`:3: not valid YAML: a tab in the indentation; use spaces`},
		},
		"a field that is indented too little": {
			in:   "- group: a\n  version: v1\n kind: X\n",
			want: []string{`:3: not valid YAML: did not find expected '-' indicator`},
		},
		"a second colon": {
			in:   "- group: a\n  version: v1: b\n",
			want: []string{`:2: not valid YAML: mapping values are not allowed in this context`},
		},
		"a missing colon": {
			in:   "- group: a\n  version v1\n  kind: c\n",
			want: []string{`:2: not valid YAML: could not find expected ':'`},
		},
		"a quote that stays open": {
			in:   "- group: 'a\n\n   b'\n  version: \"v1\n  kind: c\n",
			want: []string{`:4: not valid YAML: found unexpected end of stream`},
		},
		"a brace that stays open": {
			in:   "- group: a\n  selector: {a: b\n  kind: c\n",
			want: []string{`:2: not valid YAML: did not find expected ',' or '}'`},
		},
		"an unknown anchor": {
			in:   "- group: a\n  version: v1\n  kind: *x\n",
			want: []string{`:3: not valid YAML: unknown anchor 'x' referenced`},
		},
		"bytes that are no text": {
			in:   "- group: a\n  version: \xff\n",
			want: []string{`:2: not valid YAML: invalid leading UTF-8 octet`},
		},
		"a control character": {
			in:   "- group: a\n\n- \x01\n",
			want: []string{`:3: not valid YAML: control characters are not allowed`},
		},
		"an anchor in itself": {
			in:   guestbook + "  overrideValues: &a\n    x: *a\n",
			want: []string{`:6: anchor "a" contains itself`},
		},
		"an error in an anchor is told once": {
			in:   strings.Replace(guestbook, "- ", "- &a\n  ", 1) + "  foo: 1\n- <<: *a\n  kind: Other\n",
			want: []string{`:6: unknown field "foo"`},
		},
		"a merge of what is no map": {
			in:   guestbook + "  <<: 3\n",
			want: []string{`:5: "<<" must be followed by maps to merge, not a number`},
		},
	})
}
