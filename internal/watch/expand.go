// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"go.yaml.in/yaml/v3"
)

// textExpander gives scalars of overrideValues their values. No error of it
// shows text that came from the environment.
type textExpander struct {
	functions template.FuncMap
}

func newTextExpander() textExpander {
	functions := sprig.TxtFuncMap()
	// Values that differ at each start of the operator would upgrade every
	// release each time. The old operators don't have these functions either.
	for _, f := range []string{
		"bcrypt", "buildCustomCert", "decryptAES", "derivePassword", "encryptAES", "genCA", "genCAWithKey",
		"genPrivateKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey",
		"htpasswd", "randAlpha", "randAlphaNum", "randAscii", "randBytes", "randNumeric", "shuffle", "uuidv4",
	} {
		delete(functions, f)
	}
	return textExpander{functions: functions}
}

// integerPattern matches what YAML takes for a float when it is too large for an integer.
var integerPattern = regexp.MustCompile(`^[-+]?[0-9_]+$`)

// scalar returns the value of a scalar node. top says that it stands right
// under overrideValues, where strings are typed as helm --set types them.
func (x textExpander) scalar(n *yaml.Node, top bool) (any, error) {
	if b, ok := boolOf(n); ok {
		return b, nil
	}
	tagged := n.Style&yaml.TaggedStyle != 0
	switch tag := n.ShortTag(); tag {
	case "!!null":
		return nil, nil
	case "!!timestamp":
		return n.Value, nil
	case "!!binary":
		data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
		if err != nil {
			return nil, errors.New("not base64, as !!binary needs")
		}
		return string(data), nil
	case "!!str":
		s, err := x.text(n.Value)
		if err != nil || tagged || !top {
			return s, err
		}
		return setValue(s), nil
	case "!!int", "!!float", "!!bool":
		if tag == "!!float" && !tagged && integerPattern.MatchString(n.Value) {
			return nil, errors.New("a whole number of more than 64 bits; put it in quotes to pass it as text")
		}
		text := n.Value
		if tagged {
			var err error
			if text, err = x.text(text); err != nil {
				return nil, err
			}
		}
		return typed(tag, text)
	default:
		return nil, fmt.Errorf("unknown tag %s", quote(tag))
	}
}

// typed reads text as a scalar of the tag's type.
func typed(tag, text string) (any, error) {
	what := map[string]string{"!!int": "a whole number", "!!float": "a number", "!!bool": "true or false"}[tag]
	var v any
	if err := (&yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}).Decode(&v); err != nil {
		return nil, fmt.Errorf("not %s, as its tag says", what)
	}
	switch v := v.(type) {
	case bool:
		return v, nil
	case int:
		return int64(v), nil
	case int64:
		return v, nil
	case float64:
		if tag == "!!float" && !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v, nil
		}
	}
	return nil, fmt.Errorf("not %s that values can hold; tag it !!str to pass it as text", what)
}

// text replaces environment variables in s and executes it as a template.
func (x textExpander) text(s string) (string, error) {
	var used []string
	expanded := os.Expand(s, func(name string) string {
		if !slices.Contains(used, "$"+name) {
			used = append(used, "$"+name)
		}
		return os.Getenv(name)
	})
	if !strings.Contains(expanded, "{{") {
		return expanded, nil
	}
	t, err := x.parse(expanded)
	if err != nil {
		// The error quotes what it is about, so show the one that s gives as it is written.
		if _, err := x.parse(s); err != nil {
			return "", templateError(err)
		}
		return "", fmt.Errorf("not a template once %s is filled in", strings.Join(used, ", "))
	}
	var out strings.Builder
	if err := t.Execute(&out, nil); err != nil {
		switch {
		case len(used) > 0:
			return "", fmt.Errorf("the template fails with %s filled in", strings.Join(used, ", "))
		case strings.Contains(s, "env"):
			return "", errors.New("the template, which reads the environment, fails")
		}
		return "", templateError(err)
	}
	return out.String(), nil
}

func (x textExpander) parse(s string) (*template.Template, error) {
	return template.New("value").Funcs(x.functions).Parse(s)
}

var templatePosition = regexp.MustCompile(`^template: value:[\d:]* (executing "value" )?`)

func templateError(err error) error {
	return fmt.Errorf("the template fails: %s", templatePosition.ReplaceAllString(err.Error(), ""))
}

// setValue reads s as the value of helm --set is read, except that a comma
// outside of braces is a character like any other.
func setValue(s string) any {
	items, ok := setList(s)
	if !ok {
		return setScalar(s)
	}
	list := make([]any, 0, len(items))
	for _, item := range items {
		list = append(list, setScalar(item))
	}
	return list
}

// setList splits "{a,b}". A JSON object is no such list, and stays text.
func setList(s string) ([]string, bool) {
	if len(s) < 2 || s[0] != '{' || json.Valid([]byte(s)) {
		return nil, false
	}
	var items []string
	start := 1
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case ',':
			items = append(items, s[start:i])
			start = i + 1
		case '}':
			return append(items, s[start:i]), i == len(s)-1
		}
	}
	return nil, false
}

func setScalar(s string) any {
	s = unescape(s)
	switch {
	case strings.EqualFold(s, "true"):
		return true
	case strings.EqualFold(s, "false"):
		return false
	case strings.EqualFold(s, "null"):
		return nil
	case s == "0":
		return int64(0)
	case s == "" || s[0] == '0':
		return s
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	return s
}

// unescape drops the backslashes that keep helm --set from splitting a value.
// Others are left, so that a pattern such as \d+ survives.
func unescape(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\,`, `,`, `\{`, `{`, `\}`, `}`).Replace(s)
}
