// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxDepth is how deep a schema document may nest.
const maxDepth = 500

// document is a JSON file that knows where each of its values is.
type document struct {
	file string
	data []byte
	root any
	// offsets of values, by JSON pointer.
	offsets map[string]int64
}

// parseDocument reads a JSON document. Numbers stay as they are written.
func parseDocument(file string, data []byte) (*document, error) {
	d := &document{file: file, data: data, offsets: map[string]int64{}}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("%s: the file is empty: write a JSON schema, or remove the file", file)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var err error
	if d.root, err = d.value(dec, "", 0); err == nil {
		if _, err = dec.Token(); errors.Is(err, io.EOF) {
			return d, nil
		}
		if err == nil {
			err = errors.New("more than one value in the file")
		}
	}
	offset := dec.InputOffset()
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = max(offset, syntax.Offset-1)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		offset, err = int64(len(bytes.TrimRight(data, " \t\r\n"))), errors.New("the file ends in the middle of a value")
	}
	line, column := d.position(offset)
	return nil, fmt.Errorf("%s:%d:%d: not valid JSON: %w", file, line, column, err)
}

func (d *document) value(dec *json.Decoder, ptr string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	d.offsets[ptr] = d.skipSpace(dec.InputOffset())
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	switch delim {
	case '{':
		object := map[string]any{}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			name, ok := key.(string)
			if !ok {
				return nil, fmt.Errorf("unexpected %v for a key", key)
			}
			if object[name], err = d.value(dec, join(ptr, name), depth+1); err != nil {
				return nil, err
			}
		}
		_, err = dec.Token()
		return object, err
	case '[':
		list := []any{}
		for dec.More() {
			item, err := d.value(dec, join(ptr, strconv.Itoa(len(list))), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		_, err = dec.Token()
		return list, err
	default:
		return nil, fmt.Errorf("unexpected %v", delim)
	}
}

// skipSpace goes from the end of the last token to the start of the next.
func (d *document) skipSpace(offset int64) int64 {
	for offset < int64(len(d.data)) && strings.IndexByte(" \t\r\n,:", d.data[offset]) >= 0 {
		offset++
	}
	return offset
}

// position of an offset: line and column, both from 1.
func (d *document) position(offset int64) (line, column int) {
	before := d.data[:min(offset, int64(len(d.data)))]
	return bytes.Count(before, []byte("\n")) + 1, len(before) - (bytes.LastIndexByte(before, '\n') + 1) + 1
}

// line of the value at a pointer, or 0 where there is none.
func (d *document) line(ptr string) int {
	offset, ok := d.offsets[ptr]
	if !ok {
		return 0
	}
	line, _ := d.position(offset)
	return line
}

// errorAt is an error about the value at a pointer.
func (d *document) errorAt(ptr string, err error) error {
	line, column := d.position(d.offsets[ptr])
	return fmt.Errorf("%s:%d:%d: %s: %w", d.file, line, column, display(ptr), err)
}

// lookup finds the value at a pointer.
func (d *document) lookup(ptr string) (any, bool) {
	if _, ok := d.offsets[ptr]; !ok {
		return nil, false
	}
	at := d.root
	for _, token := range splitPointer(ptr) {
		switch v := at.(type) {
		case map[string]any:
			at = v[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			at = v[i]
		default:
			return nil, false
		}
	}
	return at, true
}

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// join appends reference tokens to a JSON pointer.
func join(ptr string, tokens ...string) string {
	for _, token := range tokens {
		ptr += "/" + escaper.Replace(token)
	}
	return ptr
}

func splitPointer(ptr string) []string {
	if ptr == "" {
		return nil
	}
	tokens := strings.Split(ptr[1:], "/")
	for i := range tokens {
		tokens[i] = unescaper.Replace(tokens[i])
	}
	return tokens
}

// display is a pointer as it is written in a $ref.
func display(ptr string) string { return "#" + ptr }
