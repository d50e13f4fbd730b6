// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"fmt"
	"strings"
	"testing"
)

// construct is one construct of JSON schema on field v of a chart, and what becomes of it.
type construct struct {
	schema   string // of v
	rest     string // of the schema's root, such as definitions
	values   string // values.yaml
	want     string // v in the CRD
	warnings []string
}

const anything = `{"nullable":true,"x-open":true}`

var constructs = map[string]construct{
	"description and title":             {schema: `{"type":"string","title":"T","description":"D"}`, want: `{"description":"D","type":"string"}`},
	"title stands in for a description": {schema: `{"type":"string","title":"T"}`, want: `{"description":"T","type":"string"}`},
	"a deprecated field says so":        {schema: `{"type":"string","description":"D","deprecated":true}`, want: `{"description":"D. Deprecated.","type":"string"}`},

	"boolean":      {schema: `{"type":"boolean"}`, want: `{"type":"boolean"}`},
	"integer":      {schema: `{"type":"integer"}`, want: `{"format":"int64","type":"integer"}`},
	"int32":        {schema: `{"type":"integer","format":"int32"}`, want: `{"format":"int32","type":"integer"}`},
	"number":       {schema: `{"type":"number"}`, want: `{"type":"number"}`},
	"any type":     {schema: `{}`, want: anything},
	"schema true":  {schema: `true`, want: anything},
	"schema false": {schema: `false`, want: `{"not":{},"x-open":true}`},

	"string and null":             {schema: `{"type":["string","null"]}`, want: `{"nullable":true,"type":"string"}`},
	"integer and string":          {schema: `{"type":["string","integer"]}`, want: `{"x-kubernetes-int-or-string":true}`},
	"integer, string and null":    {schema: `{"type":["string","integer","null"]}`, want: `{"nullable":true,"x-kubernetes-int-or-string":true}`},
	"integer and number":          {schema: `{"type":["integer","number"]}`, want: `{"type":"number"}`},
	"number and string stay open": {schema: `{"type":["number","string"]}`, want: `{"x-open":true}`, warnings: []string{"#/properties/v: may be integer or number or string"}},
	"string and object stay open": {schema: `{"type":["string","object"]}`, want: `{"x-open":true}`, warnings: []string{"#/properties/v: may be object or string"}},
	"object by its properties":    {schema: `{"additionalProperties":false,"properties":{"a":{"type":"string"}}}`, want: `{"nullable":true,"properties":{"a":{"type":"string"}},"type":"object"}`},
	"list by its items":           {schema: `{"items":{"type":"string"}}`, want: `{"items":{"type":"string"},"nullable":true,"type":"array"}`},
	"type by its enum":            {schema: `{"enum":["a","b"]}`, want: `{"enum":["a","b"],"type":"string"}`},
	"x-kubernetes-int-or-string":  {schema: `{"x-kubernetes-int-or-string":true}`, want: `{"nullable":true,"x-kubernetes-int-or-string":true}`},

	"enum":                  {schema: `{"type":"string","enum":["a","b"]}`, want: `{"enum":["a","b"],"type":"string"}`},
	"enum with null":        {schema: `{"enum":["a",null]}`, want: `{"allOf":[{"enum":["a"]}],"description":"One of a, null.","nullable":true,"type":"string"}`},
	"enum of many types":    {schema: `{"enum":["a",1,null]}`, want: `{"allOf":[{"enum":["a",1]}],"description":"One of a, 1, null.","nullable":true,"x-kubernetes-int-or-string":true}`},
	"const":                 {schema: `{"const":"a"}`, want: `{"enum":["a"],"type":"string"}`},
	"minimum and maximum":   {schema: `{"type":"integer","minimum":1,"maximum":9}`, want: `{"format":"int64","maximum":9,"minimum":1,"type":"integer"}`},
	"exclusive, as numbers": {schema: `{"type":"integer","exclusiveMinimum":1,"exclusiveMaximum":9}`, want: `{"exclusiveMaximum":true,"exclusiveMinimum":true,"format":"int64","maximum":9,"minimum":1,"type":"integer"}`},
	"exclusive, as flags of draft 4": {schema: `{"type":"integer","minimum":1,"exclusiveMinimum":true}`, rest: `"$schema":"http://json-schema.org/draft-04/schema#"`,
		want: `{"exclusiveMinimum":true,"format":"int64","minimum":1,"type":"integer"}`},
	"multipleOf": {schema: `{"type":"integer","multipleOf":5}`, want: `{"format":"int64","multipleOf":5,"type":"integer"}`},
	"a fraction in multipleOf is not checked": {schema: `{"type":"number","multipleOf":0.1}`, want: `{"type":"number"}`, warnings: []string{"#/properties/v/multipleOf: multipleOf"}},
	"length":                           {schema: `{"type":"string","minLength":1,"maxLength":9}`, want: `{"maxLength":9,"minLength":1,"type":"string"}`},
	"pattern":                          {schema: `{"type":"string","pattern":"^a"}`, want: `{"pattern":"^a","type":"string"}`},
	"a pattern that only ECMA knows":   {schema: `{"type":"string","pattern":"^(?!a)"}`, want: `{"type":"string"}`, warnings: []string{"#/properties/v/pattern: the pattern does not compile in Go"}},
	"format of draft 7":                {schema: `{"type":"string","format":"email"}`, rest: draft07, want: `{"format":"email","type":"string"}`},
	"format that Kubernetes lacks":     {schema: `{"type":"string","format":"iri"}`, rest: draft07, want: `{"type":"string"}`, warnings: []string{`#/properties/v/format: format "iri" is not checked`}},
	"format of draft 2020 is a remark": {schema: `{"type":"string","format":"email"}`, want: `{"type":"string"}`},

	"items":            {schema: `{"type":"array","minItems":1,"maxItems":2,"items":{"type":"integer"}}`, want: `{"items":{"format":"int64","type":"integer"},"maxItems":2,"minItems":1,"type":"array"}`},
	"list of anything": {schema: `{"type":"array"}`, want: `{"items":` + anything + `,"type":"array"}`},
	"a set of strings": {schema: `{"type":"array","uniqueItems":true,"items":{"type":"string"}}`, want: `{"items":{"type":"string"},"type":"array","x-kubernetes-list-type":"set"}`},
	"a set of objects is not checked": {schema: `{"type":"array","uniqueItems":true,"items":{"type":"object"}}`, want: `{"items":{"type":"object","x-open":true},"type":"array"}`,
		warnings: []string{"#/properties/v/uniqueItems: uniqueItems is not checked"}},
	"tuple as items":          {schema: `{"type":"array","items":[{"type":"string"}]}`, rest: draft07, want: `{"items":` + anything + `,"type":"array"}`, warnings: []string{"#/properties/v/items: items that differ by position"}},
	"tuple as prefixItems":    {schema: `{"type":"array","prefixItems":[{"type":"string"}]}`, want: `{"items":` + anything + `,"type":"array"}`, warnings: []string{"#/properties/v/prefixItems: items that differ by position"}},
	"contains is not checked": {schema: `{"type":"array","contains":{"const":"a"}}`, want: `{"items":` + anything + `,"type":"array"}`, warnings: []string{"#/properties/v/contains: contains"}},
	"required in a list": {schema: `{"type":"array","items":{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":"string","default":"x"}}}}`,
		want: `{"items":{"properties":{"a":{"default":"x","description":"Default: x.","type":"string"}},"required":["a"],"type":"object"},"type":"array"}`},

	"an open object keeps what it doesn't list": {schema: `{"type":"object","properties":{"a":{"type":"string"}}}`, want: `{"properties":{"a":{"type":"string"}},"type":"object","x-open":true}`},
	"a closed object doesn't":                   {schema: `{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}}`, want: `{"properties":{"a":{"type":"string"}},"type":"object"}`},
	"free fields of a kind":                     {schema: `{"type":"object","additionalProperties":{"type":"string"}}`, want: `{"additionalProperties":{"type":"string"},"type":"object"}`},
	"free fields of any kind":                   {schema: `{"type":"object","additionalProperties":true}`, want: `{"type":"object","x-open":true}`},
	"free fields beside listed ones": {schema: `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":{"type":"integer"}}`,
		want: `{"properties":{"a":{"type":"string"}},"type":"object","x-open":true}`, warnings: []string{"#/properties/v/additionalProperties: fields that are not listed"}},
	"fields by pattern": {schema: `{"type":"object","additionalProperties":false,"patternProperties":{"^x":{"type":"string"}}}`,
		want: `{"type":"object","x-open":true}`, warnings: []string{"#/properties/v/patternProperties: fields named by a pattern"}},
	"the number of fields of an object": {schema: `{"type":"object","minProperties":1}`, want: `{"type":"object","x-open":true}`, warnings: []string{"#/properties/v: the number of fields is not checked"}},
	"dependencies are not checked":      {schema: `{"type":"object","dependentRequired":{"a":["b"]}}`, want: `{"type":"object","x-open":true}`, warnings: []string{"#/properties/v/dependentRequired: dependentRequired"}},

	"$ref":                        {schema: `{"$ref":"#/definitions/d"}`, rest: `"definitions":{"d":{"type":"string"}}`, want: `{"type":"string"}`},
	"$ref to $defs":               {schema: `{"$ref":"#/$defs/d"}`, rest: `"$defs":{"d":{"type":"string"}}`, want: `{"type":"string"}`},
	"$ref to an anchor":           {schema: `{"$ref":"#d"}`, rest: `"$defs":{"x":{"$anchor":"d","type":"string"}}`, want: `{"type":"string"}`},
	"a description beside a $ref": {schema: `{"description":"mine","$ref":"#/definitions/d"}`, rest: draft07 + `,"definitions":{"d":{"type":"string","description":"its"}}`, want: `{"description":"mine","type":"string"}`},
	"limits beside a $ref of draft 7 don't count": {schema: `{"minLength":1,"$ref":"#/definitions/d"}`, rest: draft07 + `,"definitions":{"d":{"type":"string"}}`, want: `{"type":"string"}`},
	"limits beside a $ref of draft 2020 do":       {schema: `{"minLength":1,"$ref":"#/definitions/d"}`, rest: `"definitions":{"d":{"type":"string"}}`, want: `{"minLength":1,"type":"string"}`},
	"a $ref to another document stays open":       {schema: `{"$ref":"https://example.com/x.json#/a"}`, want: anything, warnings: []string{"#/properties/v/$ref: leads to another document"}},
	"a schema that holds itself is opened where it does": {schema: `{"$ref":"#/definitions/node"}`,
		rest: `"definitions":{"node":{"type":"object","additionalProperties":false,"properties":{"name":{"type":"string"},"child":{"$ref":"#/definitions/node"}}}}`,
		want: `{"properties":{"child":` + anything + `,"name":{"type":"string"}},"type":"object"}`, warnings: []string{"#/definitions/node/properties/child/$ref: refers back to #/definitions/node"}},

	"allOf is merged": {schema: `{"allOf":[{"type":"integer","minimum":1},{"minimum":2,"maximum":5},{"description":"D"}]}`,
		want: `{"description":"D","format":"int64","maximum":5,"minimum":2,"type":"integer"}`},
	"allOf of objects": {schema: `{"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"properties":{"a":{"minLength":1},"b":{"type":"boolean"}}}]}`,
		want: `{"properties":{"a":{"minLength":1,"type":"string"},"b":{"type":"boolean"}},"type":"object","x-open":true}`},
	"allOf of two patterns":           {schema: `{"type":"string","allOf":[{"pattern":"a"},{"pattern":"b"}]}`, want: `{"allOf":[{"pattern":"b"}],"pattern":"a","type":"string"}`},
	"allOf that no value fits":        {schema: `{"allOf":[{"type":"string"},{"type":"integer"}]}`, want: `{"x-open":true}`, warnings: []string{"#/properties/v: no type fits"}},
	"anyOf of types":                  {schema: `{"anyOf":[{"type":"string"},{"type":"integer"}]}`, want: `{"x-kubernetes-int-or-string":true}`},
	"anyOf of one type":               {schema: `{"anyOf":[{"type":"string","minLength":3},{"type":"string","enum":["a"]}]}`, want: `{"anyOf":[{"minLength":3},{"enum":["a"]}],"type":"string"}`},
	"oneOf with null":                 {schema: `{"oneOf":[{"type":"null"},{"type":"string","minLength":1}]}`, want: `{"minLength":1,"nullable":true,"type":"string"}`},
	"oneOf of limits":                 {schema: `{"type":"integer","oneOf":[{"multipleOf":3},{"multipleOf":5}]}`, want: `{"format":"int64","oneOf":[{"multipleOf":3},{"multipleOf":5}],"type":"integer"}`},
	"anyOf of a string and an object": {schema: `{"anyOf":[{"type":"string"},{"type":"object"}]}`, want: `{"x-open":true}`, warnings: []string{"#/properties/v: may be object or string"}},
	"not":                             {schema: `{"type":"string","not":{"enum":["x"]}}`, want: `{"not":{"enum":["x"]},"type":"string"}`},
	"not of what can't be expressed":  {schema: `{"type":"array","items":{"type":"string"},"not":{"contains":{"const":"x"}}}`, want: `{"items":{"type":"string"},"type":"array"}`, warnings: []string{"#/properties/v/not: not can't be expressed"}},
	"if, then, else": {schema: `{"type":"integer","if":{"minimum":10},"then":{"multipleOf":10},"else":{"multipleOf":2}}`,
		want: `{"allOf":[{"anyOf":[{"minimum":10},{"multipleOf":2}]}],"anyOf":[{"not":{"minimum":10}},{"multipleOf":10}],"format":"int64","type":"integer"}`},
	"one of two required: it may come with values.yaml or valuesFrom": {
		schema:   `{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"},"b":{"type":"string"}},"oneOf":[{"required":["a"]},{"required":["b"]}]}`,
		want:     `{"not":{"allOf":[{"required":["a"]},{"required":["b"]}]},"properties":{"a":{"type":"string"},"b":{"type":"string"}},"type":"object"}`,
		warnings: []string{"#/properties/v/oneOf: oneOf can be expressed only in part"}},
	"one of two required in a list": {
		schema: `{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"},"b":{"type":"string"}},"oneOf":[{"required":["a"]},{"required":["b"]}]}}`,
		want:   `{"items":{"oneOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{"type":"string"},"b":{"type":"string"}},"type":"object"},"type":"array"}`},
	"a field that only a branch knows": {
		schema: `{"type":"array","items":{"type":"object","oneOf":[{"properties":{"file":{"type":"string","description":"F"}},"required":["file"]},{"properties":{"url":{"type":"string"}},"required":["url"]}]}}`,
		want: `{"items":{"anyOf":[` +
			`{"required":["file"]},{"required":["url"]}],"properties":{"file":{"description":"F","nullable":true,"x-open":true},"url":{"nullable":true,"x-open":true}},"type":"object","x-open":true},"type":"array"}`,
		warnings: []string{"#/properties/v/items/oneOf: oneOf can be expressed only in part"}},

	"a default that values.yaml has is told, not set":            {schema: `{"type":"integer","default":1}`, values: "v: 1", want: `{"description":"Default: 1.","format":"int64","nullable":true,"type":"integer"}`},
	"a default that values.yaml lacks is set":                    {schema: `{"type":"integer","default":1}`, want: `{"default":1,"description":"Default: 1.","format":"int64","type":"integer"}`},
	"a default that values.yaml leaves to the templates is told": {schema: `{"type":["string","null"],"default":"x"}`, values: "v: null", want: `{"description":"Default: x.","nullable":true,"type":"string"}`},
	"a value of values.yaml is told":                             {schema: `{"type":"string","description":"D"}`, values: "v: x", want: `{"description":"D. Default: x.","nullable":true,"type":"string"}`},
	"a description that tells the default":                       {schema: `{"type":"string","description":"Defaults to x"}`, values: "v: x", want: `{"description":"Defaults to x","nullable":true,"type":"string"}`},
	"a default that differs from values.yaml": {schema: `{"type":"integer","default":1}`, values: "v: 2", want: `{"description":"Default: 2.","format":"int64","nullable":true,"type":"integer"}`,
		warnings: []string{"#/properties/v/default: the default 1 differs from 2 of values.yaml"}},
	"a default that doesn't fit":                              {schema: `{"type":"integer","default":"x"}`, want: `{"description":"Default: x.","format":"int64","type":"integer"}`, warnings: []string{`#/properties/v/default: the default "x" does not fit`}},
	"null may take away what values.yaml has, in an enum too": {schema: `{"enum":["a","b"]}`, values: "v: a", want: `{"allOf":[{"enum":["a","b"]}],"description":"One of a, b. Default: a.","nullable":true,"type":"string"}`},
	"a large default stays an integer":                        {schema: `{"type":"integer"}`, values: "v: 10000000000", want: `{"description":"Default: 10000000000.","format":"int64","nullable":true,"type":"integer"}`},
	"null may take away a key of a map":                       {schema: `{"type":"object","additionalProperties":{"type":"string"}}`, values: "v: {a: b}", want: `{"additionalProperties":{"nullable":true,"type":"string"},"description":"Default: {\"a\":\"b\"}.","nullable":true,"type":"object"}`},
}

const draft07 = `"$schema":"http://json-schema.org/draft-07/schema#"`

func (c construct) document() string {
	rest := c.rest
	if rest != "" {
		rest += ","
	}
	return fmt.Sprintf(`{%s"type":"object","additionalProperties":false,"properties":{"v":%s}}`, rest, c.schema)
}

func TestConstructs(t *testing.T) {
	for name, tc := range constructs {
		t.Run(name, func(t *testing.T) {
			crd, warnings := mustCRD(t, makeChart(tc.document(), tc.values), Options{})
			if got, want := compact(t, specOf(crd)), `{"properties":{"v":`+tc.want+`},"type":"object"}`; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if len(warnings) != len(tc.warnings) {
				t.Errorf("warnings %q, want %q", warnings, tc.warnings)
			}
			for i := range min(len(warnings), len(tc.warnings)) {
				if !strings.HasPrefix(warnings[i], tc.warnings[i]) {
					t.Errorf("warning %q, want %q", warnings[i], tc.warnings[i])
				}
			}
		})
	}
}
