// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
)

// Forms returns the forms in which a text may hold a secret value: as it is,
// trimmed, on one line, encoded, quoted, and line by line where it has several.
func Forms(value string) []string {
	out := []string{
		value, strings.TrimSpace(value), strings.Join(strings.Fields(value), " "),
		base64.StdEncoding.EncodeToString([]byte(value)), url.QueryEscape(value), url.PathEscape(value),
	}
	if quoted, err := json.Marshal(value); err == nil {
		out = append(out, strings.Trim(string(quoted), `"`))
	}
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= minLine {
				out = append(out, line)
			}
		}
	}
	return out
}
