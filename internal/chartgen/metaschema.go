// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// draft of a JSON schema, in the order in which they came.
type draft int

const (
	draft4 draft = iota
	draft6
	draft7
	draft2019
	draft2020
)

// drafts by the URL of their metaschema, without scheme and fragment.
var drafts = map[string]draft{
	"json-schema.org/draft-04/schema":      draft4,
	"json-schema.org/draft-06/schema":      draft6,
	"json-schema.org/draft-07/schema":      draft7,
	"json-schema.org/draft/2019-09/schema": draft2019,
	"json-schema.org/draft/2020-12/schema": draft2020,
	"json-schema.org/schema":               draft2020,
}

// draftOf says which draft a document follows. A document that doesn't say
// follows the newest, as it does for Helm.
func draftOf(root any) (found draft, url string, known bool) {
	object, _ := root.(map[string]any)
	url, ok := object["$schema"].(string)
	if !ok {
		return draft2020, "", true
	}
	_, name, _ := strings.Cut(url, "://")
	name, _, _ = strings.Cut(name, "#")
	if found, known = drafts[name]; !known {
		found = draft2020
	}
	return found, url, known
}

// checkMetaschema refuses a document that is no schema of its draft: Helm would
// refuse it too, but only when the first release is made. References to other
// documents are not followed.
func checkMetaschema(d *document) error {
	const url = "file:///values.schema.json"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{})
	compiler.UseRegexpEngine(anyRegexp)
	_, _, known := draftOf(d.root)
	if err := compiler.AddResource(url, localOnly(d.root, known)); err != nil {
		return fmt.Errorf("%s: %w", d.file, err)
	}
	_, err := compiler.Compile(url)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.SchemaValidationError
	var cause *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &cause) {
		for len(cause.Causes) > 0 {
			cause = cause.Causes[0]
		}
		why := cause.ErrorKind.LocalizedString(message.NewPrinter(language.English))
		return d.errorAt(join("", cause.InstanceLocation...), fmt.Errorf("not a valid JSON schema: %s", why))
	}
	text := strings.ReplaceAll(err.Error(), url, d.file)
	return fmt.Errorf("%s: not a valid JSON schema: %s", d.file, strings.Join(strings.Fields(text), " "))
}

// localOnly copies a document without references to other documents.
func localOnly(v any, knownDraft bool) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			text, isText := value.(string)
			switch key {
			case "$ref", "$dynamicRef", "$recursiveRef":
				if isText && !strings.HasPrefix(text, "#") {
					continue
				}
			case "$schema":
				if isText && !knownDraft {
					continue
				}
			}
			out[key] = localOnly(value, knownDraft)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = localOnly(v[i], knownDraft)
		}
		return out
	default:
		return v
	}
}

// anyRegexp takes any pattern: the conversion judges patterns one by one.
func anyRegexp(pattern string) (jsonschema.Regexp, error) { return uncompiled(pattern), nil }

type uncompiled string

func (u uncompiled) String() string          { return string(u) }
func (u uncompiled) MatchString(string) bool { return true }
