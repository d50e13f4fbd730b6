// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/internal/plan"
)

const (
	// redacted stands where a secret value stood.
	redacted = "<redacted>"
	// minSecret is how long a value must be to be looked for: shorter ones would take words apart.
	minSecret = 4
)

// secretKey matches names of values that hold secrets by custom.
var secretKey = regexp.MustCompile(`(?i)(passw(or)?d|passphrase|secret|token|api[-_]?key|private[-_]?key|credential|dsn|connection[-_]?string)`)

// plainKey matches names that look like secretKey and hold no secret.
var plainKey = regexp.MustCompile(`(?i)(name|ref|existing|enabled|path|mount|annotations|labels|type|length)$|^existing`)

// Redact returns the error with every secret value of the change taken out of
// its text: those that came from Secrets, those in the Secrets it renders, and
// values whose names say that they are secret. What kind of error it is stays to be seen.
func (s *Session) Redact(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := s.redact(text); clean != text {
		return &flatError{msg: clean, err: err}
	}
	return err
}

func (s *Session) redact(text string) string {
	for _, secret := range s.secrets() {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return text
}

// secrets returns the secret values of the change, longest first.
func (s *Session) secrets() []string {
	out := secretsAt(s.change.Values, s.change.Secret)
	for _, secret := range slices.Clone(out) {
		out = append(out, plan.Forms(secret)...)
	}
	secretValues(s.change.Values, false, &out)
	if s.change.Chart != nil {
		secretValues(s.change.Chart.Values, false, &out)
	}
	if s.rendered != nil {
		objects, err := parseManifestString(s.rendered.manifest)
		if err == nil {
			for _, obj := range objects {
				out = append(out, secretData(obj)...)
			}
		}
	}
	out = slices.DeleteFunc(out, func(v string) bool { return len(v) < minSecret })
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}

// secretValues collects the strings under keys that name secrets.
func secretValues(value any, under bool, out *[]string) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			secretValues(item, (under || secretKey.MatchString(key)) && !plainKey.MatchString(key), out)
		}
	case []any:
		for _, item := range v {
			secretValues(item, under, out)
		}
	case string:
		if under {
			*out = append(*out, v, base64.StdEncoding.EncodeToString([]byte(v)))
		}
	}
}

// secretData returns what a Secret holds, encoded and plain.
func secretData(obj *unstructured.Unstructured) []string {
	if obj.GetKind() != "Secret" || obj.GetAPIVersion() != "v1" {
		return nil
	}
	var out []string
	data, _, _ := unstructured.NestedMap(obj.Object, "data")
	for _, v := range data {
		if encoded, ok := v.(string); ok {
			out = append(out, encoded)
			if plain, err := base64.StdEncoding.DecodeString(encoded); err == nil {
				out = append(out, string(plain))
			}
		}
	}
	plain, _, _ := unstructured.NestedMap(obj.Object, "stringData")
	for _, v := range plain {
		if text, ok := v.(string); ok {
			out = append(out, text, base64.StdEncoding.EncodeToString([]byte(text)))
		}
	}
	return out
}
