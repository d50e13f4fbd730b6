// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template/parse"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// document is one part of the manifests, between separators.
type document struct {
	pieces []piece
	// open is true where a directive has a say in what the document is.
	open bool
}

// piece is text that stands in the manifests as it is.
type piece struct {
	text   string
	offset int // in the manifests
}

func (d *document) text() string {
	var b strings.Builder
	for _, p := range d.pieces {
		b.WriteString(p.text)
	}
	return b.String()
}

// empty tells whether there is nothing but blanks and comments in the document.
func (d *document) empty() bool {
	for line := range strings.Lines(d.text()) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return false
		}
	}
	return !d.open
}

// origin returns the offset in the manifests of an offset in the document's text.
func (d *document) origin(offset int) int {
	for _, p := range d.pieces {
		if offset < len(p.text) {
			return p.offset + offset
		}
		offset -= len(p.text)
	}
	if last := len(d.pieces) - 1; last >= 0 {
		return d.pieces[last].offset + len(d.pieces[last].text)
	}
	return 0
}

// checkManifests says what is wrong with manifests, as far as that is known before they are rendered.
func checkManifests(text string) error {
	documents, err := split(text)
	if err != nil {
		return err
	}
	c := checker{source: text, seen: map[objectID]int{}}
	something := false
	for n, d := range documents {
		if d.empty() {
			continue
		}
		if d.open {
			something = true
			continue
		}
		has, err := c.document(n+1, d)
		if err != nil {
			return err
		}
		something = something || has
	}
	if !something {
		return errors.New("there is no manifest in it; write Kubernetes manifests in YAML, separated by lines of ---")
	}
	return nil
}

// templateName is what the parser calls the manifests in its messages.
const templateName = ResourcesField

var templatePlace = regexp.MustCompile(`^template: ` + templateName + `:(\d+)(?::\d+)?: `)

// split reads the manifests as a template, and returns the documents in it.
func split(text string) (documents []*document, err error) {
	tree := parse.New(templateName)
	tree.Mode = parse.SkipFuncCheck // Helm's functions are known when it is rendered
	trees := map[string]*parse.Tree{}
	if _, err := tree.Parse(text, "", "", trees); err != nil {
		message := err.Error()
		if m := templatePlace.FindStringSubmatch(message); m != nil {
			return nil, fmt.Errorf("line %s: not a template: %s", m[1], plain(message[len(m[0]):]))
		}
		return nil, fmt.Errorf("not a template: %s", plain(message))
	}
	current := &document{}
	documents = []*document{current}
	if tree.Root == nil {
		return documents, nil
	}
	lineStart := true // of what is rendered; false after a directive, where it is not known
	for i, node := range tree.Root.Nodes {
		t, ok := node.(*parse.TextNode)
		if !ok {
			current.open, lineStart = true, false
			continue
		}
		rest, offset := string(t.Text), int(t.Pos)
		if i == 0 { // Helm takes off what is blank
			trimmed := strings.TrimLeftFunc(rest, unicode.IsSpace)
			rest, offset = trimmed, offset+len(rest)-len(trimmed)
		}
		for {
			at := separator(rest, lineStart)
			if at < 0 {
				break
			}
			current.add(rest[:at], offset)
			skipped := at + len("---")
			rest, offset, lineStart = rest[skipped:], offset+skipped, false
			current = &document{}
			documents = append(documents, current)
		}
		current.add(rest, offset)
		if rest != "" {
			lineStart = strings.HasSuffix(rest, "\n")
		}
	}
	return documents, nil
}

func (d *document) add(text string, offset int) {
	if text != "" {
		d.pieces = append(d.pieces, piece{text, offset})
	}
}

// separator returns where "---" starts a line of the text, or -1. Helm separates documents there.
func separator(text string, atLineStart bool) int {
	if atLineStart && strings.HasPrefix(text, "---") {
		return 0
	}
	if at := strings.Index(text, "\n---"); at >= 0 {
		return at + 1
	}
	return -1
}

// objectID tells objects apart, as far as that is known without the API server.
type objectID struct{ group, kind, namespace, name string }

func (id objectID) String() string {
	if id.namespace != "" {
		return fmt.Sprintf("%s %s/%s", id.kind, id.namespace, id.name)
	}
	return id.kind + " " + id.name
}

// checker checks documents that stand in the manifests as they are.
type checker struct {
	source string
	seen   map[objectID]int // line of each object
}

func (c *checker) line(d *document, offset int) int {
	return 1 + strings.Count(c.source[:min(d.origin(offset), len(c.source))], "\n")
}

// document checks one document, and tells whether there is anything in it.
func (c *checker) document(number int, d *document) (has bool, err error) {
	whole := d.text()
	lead := len(whole) - len(strings.TrimLeftFunc(whole, unicode.IsSpace))
	text := strings.TrimSpace(whole) // as Helm does
	start := c.line(d, lead)
	where := fmt.Sprintf("document %d (line %d)", number, start)
	var content any
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		return false, fmt.Errorf("%s: not YAML: %s", where, c.inSource(d, lead, text, plain(err.Error())))
	}
	switch x := content.(type) {
	case map[string]any:
		return len(x) > 0, c.object(where, start, x)
	case []any:
		return false, fmt.Errorf("%s: a YAML list; write each object as a document of its own, separated by lines of ---, or put them under items of kind List", where)
	case nil:
		return false, nil
	default:
		return false, fmt.Errorf("%s: not a manifest, but plain text or a number; if it belongs to a multi-line string above, indent it so that no line of it starts with ---", where)
	}
}

func (c *checker) object(where string, line int, content map[string]any) error {
	if len(content) == 0 {
		return nil
	}
	u := &unstructured.Unstructured{Object: content}
	kind, apiVersion := u.GetKind(), u.GetAPIVersion()
	switch {
	case kind == "":
		return fmt.Errorf("%s: kind is missing", where)
	case apiVersion == "":
		return fmt.Errorf("%s: apiVersion of the %s is missing", where, kind)
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return fmt.Errorf("%s: apiVersion of the %s: %w", where, kind, err)
	}
	if items, ok := content["items"].([]any); ok && u.IsList() {
		for n, item := range items {
			within := fmt.Sprintf("%s, item %d", where, n+1)
			o, ok := item.(map[string]any)
			if !ok {
				return fmt.Errorf("%s: not an object", within)
			}
			if err := c.object(within, line, o); err != nil {
				return err
			}
		}
		return nil
	}
	if u.GetName() == "" {
		return fmt.Errorf("%s: metadata.name of the %s is missing", where, kind)
	}
	id := objectID{gv.Group, kind, u.GetNamespace(), u.GetName()}
	if first, twice := c.seen[id]; twice {
		return fmt.Errorf("%s: %s is there already, in line %d; remove one of them", where, id, first)
	}
	c.seen[id] = line
	return nil
}

var yamlLine = regexp.MustCompile(`\bline (\d+)`)

// inSource replaces lines of a text in the parser's message by lines of the
// manifests. The text starts at an offset in the document.
func (c *checker) inSource(d *document, start int, text, message string) string {
	message = strings.TrimPrefix(message, "error converting YAML to JSON: ")
	message = strings.TrimPrefix(message, "yaml: ")
	var starts []int // offset of each line
	for offset := 0; offset <= len(text); {
		starts = append(starts, offset)
		next := strings.IndexByte(text[offset:], '\n')
		if next < 0 {
			break
		}
		offset += next + 1
	}
	return yamlLine.ReplaceAllStringFunc(message, func(found string) string {
		n, err := strconv.Atoi(strings.TrimPrefix(found, "line "))
		if err != nil || n < 1 {
			return found
		}
		n = min(n, len(starts))
		return fmt.Sprintf("line %d", c.line(d, start+starts[n-1]))
	})
}
