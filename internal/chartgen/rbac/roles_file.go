// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// section is a part of a role, with the reason for it.
type section struct {
	reason string
	rights rights
}

// role is one ClusterRole to be written.
type role struct {
	name     string
	about    string
	sections []section
}

// add adds a section with what the role doesn't hold already.
func (r *role) add(reason string, add rights) {
	var held []rights
	for _, s := range r.sections {
		held = append(held, s.rights)
	}
	if more := add.without(held...); len(more) > 0 {
		r.sections = append(r.sections, section{reason, more})
	}
}

// file is the role as a file of config/rbac.
func (r *role) file() []byte {
	var b bytes.Buffer
	comment(&b, r.about)
	fmt.Fprintf(&b, `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: %s
  labels:
    app.kubernetes.io/name: chartgate
    app.kubernetes.io/managed-by: kustomize
`, r.name)
	if len(r.sections) == 0 {
		b.WriteString("rules: []\n")
		return b.Bytes()
	}
	b.WriteString("rules:\n")
	r.writeRules(&b)
	return b.Bytes()
}

func (r *role) writeRules(b *bytes.Buffer) {
	for _, s := range r.sections {
		comment(b, s.reason)
		for _, rule := range s.rights.rules() {
			first := "- "
			for _, field := range []struct {
				name   string
				values []string
			}{
				{"apiGroups", rule.Groups}, {"resources", rule.Resources}, {"resourceNames", rule.Names},
				{"nonResourceURLs", rule.URLs}, {"verbs", rule.Verbs},
			} {
				if len(field.values) > 0 {
					fmt.Fprintf(b, "%s%s: %s\n", first, field.name, flow(field.values))
					first = "  "
				}
			}
		}
	}
}

func comment(b *bytes.Buffer, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(b, "# %s\n", line)
	}
}

// plain are strings that are the same in YAML with and without quotes.
var plain = regexp.MustCompile(`^[a-z]([-a-z0-9./]*[a-z0-9])?$`)

func flow(values []string) string {
	out := make([]string, 0, len(values))
	for _, v := range values {
		if !plain.MatchString(v) || v == "true" || v == "false" || v == "null" || v == "yes" || v == "no" || v == "on" || v == "off" {
			quoted, err := json.Marshal(v)
			if err == nil {
				v = string(quoted)
			}
		}
		out = append(out, v)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
