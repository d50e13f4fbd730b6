// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"regexp"
	"strings"
)

// maxShown is how long a default may be to be told in a description.
const maxShown = 120

var (
	tellsDefault = regexp.MustCompile(`(?i)\bdefaults?( value)?( is|s? to|:)`)
	plainText    = regexp.MustCompile(`^[A-Za-z0-9/][^"'\n]*$`)
)

// describe is the description of a field, with its default.
func describe(f *flat, at place, out *props) string {
	text := f.description
	if strings.TrimSpace(text) == "" {
		text = f.title
	}
	var remarks []string
	if f.hasEnum && out.Nullable && len(out.Enum) == 0 {
		remarks = append(remarks, oneOf(f.enum))
	}
	if f.deprecated {
		remarks = append(remarks, "Deprecated.")
	}
	if at.required && !at.exact && !at.has && !at.wild {
		remarks = append(remarks, "Required by the chart.")
	}
	switch {
	case len(f.props) > 0 && out.Type == "object" || at.unnamed || at.wild || tellsDefault.MatchString(text):
	case at.def != nil:
		remarks = append(remarks, defaultRemark(at.def))
	case f.hasDefault && f.def != nil:
		remarks = append(remarks, defaultRemark(f.def))
	}
	return sentence(text, remarks...)
}

// oneOf tells the values of an enum, where the CRD holds it out of kubectl explain's sight.
func oneOf(values []any) string {
	var shown []string
	for _, v := range values {
		shown = append(shown, showValue(v))
	}
	if list := strings.Join(shown, ", "); len(list) <= maxShown {
		return "One of " + list + "."
	}
	return ""
}

func defaultRemark(v any) string {
	shown := showValue(v)
	if shown == "" {
		return ""
	}
	return "Default: " + shown + "."
}

// showValue is a value as people write it, or nothing if it is too long.
func showValue(v any) string {
	switch value := v.(type) {
	case string:
		if plainText.MatchString(value) && len(value) <= maxShown {
			return value
		}
	case float64:
		if isWhole(value) {
			if r, ok := rational(value); ok {
				return r.Num().String()
			}
		}
	}
	if shown := encode(v); len(shown) <= maxShown {
		return shown
	}
	return ""
}

// sentence joins a text and remarks about it.
func sentence(text string, remarks ...string) string {
	text = strings.TrimSpace(text)
	for _, remark := range remarks {
		switch {
		case remark == "":
		case text == "":
			text = remark
		case strings.HasSuffix(text, ".") || strings.HasSuffix(text, "!") || strings.HasSuffix(text, "?"):
			text += " " + remark
		default:
			text += ". " + remark
		}
	}
	return text
}
