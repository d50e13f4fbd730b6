// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// maxWhole is the size up to which an index that is not written chart by chart is read as a whole.
const maxWhole = 8 << 20

// indexEntry is what is needed of a version in an index. Helm's own type keeps
// all of Chart.yaml for each, which is most of an index.
type indexEntry struct {
	Version string   `json:"version"`
	URLs    []string `json:"urls"`
	Digest  string   `json:"digest"`
}

// index tells where in an index.yaml each chart is. The file may hold thousands
// of charts with tens of versions each; all but the one that is asked for stays
// on the disk.
type index struct {
	blocks map[string]block
	// whole is the index itself where it could not be told apart by chart.
	whole map[string][]indexEntry
}

// block is one chart's part of the file.
type block struct {
	offset, length int64
	sum            [sha256.Size]byte
	json           bool
}

var errWhole = errors.New("the index is not written chart by chart")

// scanIndex reads an index once, from front to back, keeping no more than a line
// of YAML, or a chart of JSON, at a time.
func scanIndex(r io.Reader) (*index, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	start, err := buffered.Peek(1)
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty")
	}
	if err != nil {
		return nil, err
	}
	if start[0] == '{' {
		return scanJSON(buffered)
	}
	return scanYAML(buffered)
}

// readIndex scans an index to its end. The file is where all that was read can be found again.
func readIndex(r io.Reader, file io.ReaderAt) (*index, error) {
	x, err := scanIndex(r)
	if err != nil && !errors.Is(err, errWhole) {
		return nil, err
	}
	if _, drainErr := io.Copy(io.Discard, r); drainErr != nil || err == nil {
		return x, drainErr
	}
	data, err := io.ReadAll(io.NewSectionReader(file, 0, maxWhole+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxWhole {
		return nil, fmt.Errorf("%w, as 'helm repo index' writes it, and too large to be read as a whole", errWhole)
	}
	return parseWhole(data)
}

// parseWhole reads an index that is not written as all tools write it.
func parseWhole(data []byte) (*index, error) {
	var parsed struct {
		APIVersion string                  `json:"apiVersion"`
		Entries    map[string][]indexEntry `json:"entries"`
	}
	if err := yaml.Unmarshal(data, &parsed); err != nil {
		return nil, err
	}
	if parsed.APIVersion == "" {
		return nil, errNoAPIVersion
	}
	return &index{whole: parsed.Entries}, nil
}

var errNoAPIVersion = errors.New("it has no apiVersion")

// entries returns the versions of a chart. The blob is the file that was scanned.
func (x *index) entries(name string, blob io.ReaderAt) (entries []indexEntry, found bool, err error) {
	if x.whole != nil {
		entries, found = x.whole[name]
		return entries, found, nil
	}
	b, ok := x.blocks[name]
	if !ok {
		return nil, false, nil
	}
	data := make([]byte, b.length)
	if _, err := blob.ReadAt(data, b.offset); err != nil || sha256.Sum256(data) != b.sum {
		return nil, true, errCorrupt
	}
	if b.json {
		err = json.Unmarshal(data, &entries)
		return entries, true, err
	}
	byName := map[string][]indexEntry{}
	err = yaml.Unmarshal(data, &byName)
	return byName[name], true, err
}

// errCorrupt says that the file is not the one any more that was scanned.
var errCorrupt = errors.New("the cached index is damaged")

func scanJSON(r io.Reader) (*index, error) {
	x := &index{blocks: map[string]block{}}
	dec := json.NewDecoder(r)
	versioned := false
	err := eachKey(dec, func(key string) error {
		switch key {
		case "apiVersion":
			var v string
			err := dec.Decode(&v)
			versioned = v != ""
			return err
		case "entries":
			return eachKey(dec, func(name string) error {
				var raw json.RawMessage
				if err := dec.Decode(&raw); err != nil {
					return err
				}
				end := dec.InputOffset()
				x.blocks[name] = block{offset: end - int64(len(raw)), length: int64(len(raw)), sum: sha256.Sum256(raw), json: true}
				return nil
			})
		default:
			var skipped json.RawMessage
			return dec.Decode(&skipped)
		}
	})
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, errWhole // YAML may start with a brace as well
	}
	if err == nil && !versioned {
		err = errNoAPIVersion
	}
	if err != nil {
		return nil, err
	}
	return x, nil
}

// eachKey calls f for each key of a JSON object, with the decoder right before the value.
func eachKey(dec *json.Decoder, f func(key string) error) error {
	t, err := dec.Token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('{') {
		return fmt.Errorf("it has a %T where an object belongs", t)
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		if err := f(key); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// yamlScanner splits an index in YAML's block style by indentation: what is
// indented deeper than a chart's name belongs to the chart.
type yamlScanner struct {
	index     *index
	offset    int64
	versioned bool
	entries   bool // there is such a key
	inside    bool // of entries
	indent    int  // of the charts' names; 0 before the first

	name  string // of the chart that is being read; empty for none
	start int64
	hash  interface {
		io.Writer
		Sum(b []byte) []byte
	}
}

func scanYAML(r *bufio.Reader) (*index, error) {
	s := &yamlScanner{index: &index{blocks: map[string]block{}}}
	continued := false
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 && !continued {
			if err := s.line(line); err != nil {
				return nil, err
			}
		}
		if s.name != "" {
			_, _ = s.hash.Write(line)
		}
		s.offset += int64(len(line))
		continued = errors.Is(err, bufio.ErrBufferFull)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !continued {
			return nil, err
		}
	}
	s.close()
	if !s.entries || !s.versioned {
		return nil, errWhole
	}
	return s.index, nil
}

// cutKey splits a line of YAML into key and value, where the key is written in a common way.
func cutKey(body []byte) (key string, value []byte, ok bool) {
	var rest []byte
	switch c := body[0]; {
	case c == '"' || c == '\'':
		end := bytes.IndexByte(body[1:], c)
		if end < 0 || bytes.IndexByte(body[1:1+end], '\\') >= 0 {
			return "", nil, false
		}
		key, rest = string(body[1:1+end]), body[2+end:]
		if len(rest) == 0 || rest[0] != ':' {
			return "", nil, false
		}
	case c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z':
		end := bytes.IndexAny(body, `:#"'`)
		if end < 0 || body[end] != ':' {
			return "", nil, false
		}
		key, rest = string(body[:end]), body[end:]
	default:
		return "", nil, false
	}
	if rest = rest[1:]; len(rest) > 0 && rest[0] != ' ' && rest[0] != '\t' {
		return "", nil, false
	}
	return key, bytes.TrimSpace(rest), key != ""
}

// line takes the beginning of a line into account.
func (s *yamlScanner) line(line []byte) error {
	text := bytes.TrimRight(line, " \t\r\n")
	body := bytes.TrimLeft(text, " ")
	if len(body) == 0 || body[0] == '#' {
		return nil
	}
	indent := len(text) - len(body)
	if indent == 0 {
		s.close()
		s.inside = false
		return s.top(body)
	}
	if !s.inside {
		return nil
	}
	if s.indent == 0 {
		s.indent = indent
	}
	switch {
	case indent > s.indent, indent == s.indent && body[0] == '-':
		return nil
	case indent < s.indent:
		return errWhole
	}
	s.close()
	name, _, ok := cutKey(body)
	if !ok {
		return errWhole
	}
	if _, twice := s.index.blocks[name]; twice {
		return fmt.Errorf("it lists chart %q more than once", plain(name))
	}
	s.name, s.start, s.hash = name, s.offset, sha256.New()
	return nil
}

// top takes a line that is not indented.
func (s *yamlScanner) top(body []byte) error {
	if bytes.HasPrefix(body, []byte("---")) || bytes.HasPrefix(body, []byte("...")) {
		return nil
	}
	key, value, ok := cutKey(body)
	if !ok {
		return errWhole
	}
	switch key {
	case "apiVersion":
		s.versioned = len(value) > 0
	case "entries":
		if s.entries {
			return errWhole
		}
		s.entries = true
		s.inside = len(value) == 0 || value[0] == '#'
		if !s.inside && string(value) != "{}" && string(value) != "null" {
			return errWhole
		}
	}
	return nil
}

// close ends the chart that is being read.
func (s *yamlScanner) close() {
	if s.name == "" {
		return
	}
	b := block{offset: s.start, length: s.offset - s.start}
	copy(b.sum[:], s.hash.Sum(nil))
	s.index.blocks[s.name] = b
	s.name = ""
}
