// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// object is one object of a manifest.
type object struct {
	kind            schema.GroupKind
	namespace, name string
	body            map[string]any
}

// identity tells objects apart, whatever version of their kind they are written in.
type identity struct {
	kind            schema.GroupKind
	namespace, name string
	// number tells apart objects that have all of the above in common.
	number int
}

// parse reads the objects of a manifest. Lists are taken apart, so that what is
// in them is seen for what it is.
func parse(manifest string) ([]object, error) {
	var objects []object
	reader := yamlutil.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d can't be read", number)
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		var body any
		// The parser's own message may quote the document.
		if err := yaml.Unmarshal(document, &body, keepNumbers); err != nil {
			return nil, fmt.Errorf("document %d is not YAML", number)
		}
		switch body := body.(type) {
		case nil:
		case map[string]any:
			objects = append(objects, takeApart(body)...)
		default:
			return nil, fmt.Errorf("document %d is not an object", number)
		}
	}
}

// keepNumbers keeps large numbers from becoming 1e+06.
func keepNumbers(d *json.Decoder) *json.Decoder {
	d.UseNumber()
	return d
}

// takeApart returns the object, or the items if it is a list of objects.
func takeApart(body map[string]any) []object {
	kind, _ := body["kind"].(string)
	items, isList := body["items"].([]any)
	if strings.HasSuffix(kind, "List") && isList {
		var objects []object
		for _, item := range items {
			if o, ok := item.(map[string]any); ok {
				objects = append(objects, takeApart(o)...)
			}
		}
		return objects
	}
	o := object{body: body}
	apiVersion, _ := body["apiVersion"].(string)
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		gv.Group = apiVersion
	}
	o.kind = schema.GroupKind{Group: gv.Group, Kind: kind}
	if metadata, ok := body["metadata"].(map[string]any); ok {
		o.namespace, _ = metadata["namespace"].(string)
		o.name, _ = metadata["name"].(string)
	}
	return []object{o}
}

// pair is an object before and after; nil where there is none.
type pair struct{ before, after *object }

// change is what becomes of an object.
type change int

const (
	unchanged change = iota
	added
	changed
	removed
)

func (p pair) change() change {
	switch {
	case p.before == nil:
		return added
	case p.after == nil:
		return removed
	case reflect.DeepEqual(p.before.body, p.after.body):
		return unchanged
	default:
		return changed
	}
}

// match pairs the objects of two manifests: in the order of the second, then
// what only the first has.
func match(before, after []object) []pair {
	byIdentity, order := map[identity]*pair{}, []identity{}
	at := func(id identity) *pair {
		p, ok := byIdentity[id]
		if !ok {
			p = &pair{}
			byIdentity[id] = p
			order = append(order, id)
		}
		return p
	}
	for id, o := range identified(after) {
		at(id).after = o
	}
	for id, o := range identified(before) {
		at(id).before = o
	}
	pairs := make([]pair, 0, len(order))
	for _, id := range order {
		pairs = append(pairs, *byIdentity[id])
	}
	return pairs
}

// identified goes through the objects in order, each with its identity.
func identified(objects []object) iter.Seq2[identity, *object] {
	return func(yield func(identity, *object) bool) {
		seen := map[identity]int{}
		for i := range objects {
			o := &objects[i]
			id := identity{kind: o.kind, namespace: o.namespace, name: o.name}
			seen[id]++
			id.number = seen[id]
			if !yield(id, o) {
				return
			}
		}
	}
}
