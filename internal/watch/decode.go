// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decoder fills structs from YAML by their json tags, strictly. It remembers
// where each field was set, by the pointer to it, for the checks that follow.
type decoder struct {
	*problems
	lines map[any]int  // where a field was set
	wrong map[any]bool // fields that need no further check: reported, or probably misspelled
}

// mapEntry stands for the value of a key in a map, in decoder.lines.
type mapEntry struct {
	of  any
	key string
}

func newDecoder(p *problems) *decoder {
	return &decoder{problems: p, lines: map[any]int{}, wrong: map[any]bool{}}
}

// line on which the field that ptr points to was set, or the line otherwise.
func (d *decoder) line(ptr any, otherwise int) int {
	if l, ok := d.lines[ptr]; ok {
		return l
	}
	return otherwise
}

// object fills the struct v from the map n. It reports false when n is no map.
func (d *decoder) object(n *yaml.Node, v reflect.Value, name string) bool {
	if n.Kind != yaml.MappingNode {
		d.add(n.Line, "", "%s must be a map of fields, not %s", name, describe(n))
		return false
	}
	fields, names := fieldsOf(v)
	d.pairs(n, func(key, value *yaml.Node) {
		field, ok := fields[key.Value]
		if !ok {
			suggestion := closest(key.Value, names)
			d.add(key.Line, suggestion, "unknown field %s", quote(key.Value))
			if suggestion != "" {
				d.wrong[fields[suggestion].Addr().Interface()] = true
			}
			return
		}
		if isNull(value) {
			return
		}
		ptr := field.Addr().Interface()
		d.lines[ptr] = key.Line
		if !d.value(value, field, strconv.Quote(key.Value), key.Line) {
			d.wrong[ptr] = true
		}
	})
	return true
}

// pairs calls f for each pair of the map n, and reports keys that are no names or occur twice.
func (d *decoder) pairs(n *yaml.Node, f func(key, value *yaml.Node)) {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			d.add(key.Line, "", "a field name must be a string, not %s", describe(key))
			continue
		}
		if line, ok := first[key.Value]; ok {
			d.add(key.Line, "", "duplicate field %s, already set on line %d", quote(key.Value), line)
			continue
		}
		first[key.Value] = key.Line
		f(key, n.Content[i+1])
	}
}

// fieldsOf returns the fields of a struct by json name, and the names in order.
func fieldsOf(v reflect.Value) (map[string]reflect.Value, []string) {
	fields := map[string]reflect.Value{}
	var names []string
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		fields[name] = v.Field(i)
		names = append(names, name)
	}
	return fields, names
}

// value fills v from n, which isn't null. name is for messages, line that of the field.
// It reports false when v was left unset.
func (d *decoder) value(n *yaml.Node, v reflect.Value, name string, line int) bool {
	switch p := v.Addr().Interface().(type) {
	case **yaml.Node:
		*p = n
		return true
	case *metav1.Duration:
		return d.duration(n, &p.Duration, name, line)
	}
	switch v.Kind() {
	case reflect.Pointer:
		elem := reflect.New(v.Type().Elem())
		if !d.value(n, elem.Elem(), name, line) {
			return false
		}
		v.Set(elem)
		return true
	case reflect.Struct:
		return d.object(n, v, name)
	case reflect.Slice:
		return d.slice(n, v, name, line)
	case reflect.Map:
		return d.stringMap(n, v, name, line)
	case reflect.String:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" && n.ShortTag() != "!!timestamp" {
			d.add(line, "", "%s must be a string, not %s", name, describe(n))
			return false
		}
		v.SetString(n.Value)
		return true
	case reflect.Bool:
		b, ok := boolOf(n)
		if !ok {
			d.add(line, closestScalar(n, "true", "false"), "%s must be true or false, not %s", name, describe(n))
			return false
		}
		v.SetBool(b)
		return true
	case reflect.Int, reflect.Int32, reflect.Int64:
		return d.integer(n, v, name, line)
	default:
		d.add(line, "", "%s cannot be set in a watches file", name)
		return false
	}
}

func (d *decoder) slice(n *yaml.Node, v reflect.Value, name string, line int) bool {
	if n.Kind != yaml.SequenceNode {
		d.add(line, "", "%s must be a list, not %s", name, describe(n))
		return false
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	ok := true
	for i, item := range n.Content {
		elem, itemName := v.Index(i), fmt.Sprintf("%s item %d", name, i+1)
		d.lines[elem.Addr().Interface()] = item.Line
		if elem.Kind() == reflect.String {
			s, isText := textOf(item)
			if !isText {
				d.add(item.Line, "", "%s must be a string, not %s", itemName, describe(item))
				ok = false
			}
			elem.SetString(s)
			continue
		}
		if !d.value(item, elem, itemName, item.Line) {
			d.wrong[elem.Addr().Interface()] = true
		}
	}
	return ok
}

// stringMap fills a map of strings.
func (d *decoder) stringMap(n *yaml.Node, v reflect.Value, name string, line int) bool {
	if n.Kind != yaml.MappingNode {
		d.add(line, "", "%s must be a map, not %s", name, describe(n))
		return false
	}
	out := map[string]string{}
	ptr, ok := v.Addr().Interface(), true
	d.pairs(n, func(key, value *yaml.Node) {
		s, isText := textOf(value)
		if !isText {
			d.add(key.Line, "", "%s in %s must be a string, not %s", quote(key.Value), name, describe(value))
			ok = false
			return
		}
		out[key.Value] = s
		d.lines[mapEntry{ptr, key.Value}] = key.Line
	})
	v.Set(reflect.ValueOf(out))
	return ok
}

func (d *decoder) integer(n *yaml.Node, v reflect.Value, name string, line int) bool {
	var i int64
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&i) != nil || v.OverflowInt(i) {
		what := describe(n)
		if what == "a number" {
			what = quote(n.Value)
		}
		d.add(line, "", "%s must be a whole number, not %s", name, what)
		return false
	}
	v.SetInt(i)
	return true
}

func (d *decoder) duration(n *yaml.Node, out *time.Duration, name string, line int) bool {
	if n.Kind != yaml.ScalarNode {
		d.add(line, "", "%s must be a duration such as 1m30s, not %s", name, describe(n))
		return false
	}
	value, err := time.ParseDuration(n.Value)
	if err != nil || n.ShortTag() != "!!str" && value != 0 {
		suggestion := strings.ToLower(strings.ReplaceAll(n.Value, " ", ""))
		if _, err := strconv.ParseUint(n.Value, 10, 32); err == nil {
			suggestion = n.Value + "s"
		}
		if _, err := time.ParseDuration(suggestion); err != nil {
			suggestion = ""
		}
		d.add(line, suggestion, "%s must be a duration such as 1m30s, not %s", name, quote(n.Value))
		return false
	}
	if value < 0 {
		d.add(line, strings.TrimLeft(n.Value, "-"), "%s must not be negative", name)
		return false
	}
	*out = value
	return true
}
