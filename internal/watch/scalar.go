// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// yaml11Bools are the unquoted words that YAML 1.1 takes for booleans, apart
// from true and false. Kubernetes tools and Helm read YAML so, and with them
// the operators whose files are to be read unchanged.
var yaml11Bools = map[string]bool{
	"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "on": true, "On": true, "ON": true,
	"n": false, "N": false, "no": false, "No": false, "NO": false, "off": false, "Off": false, "OFF": false,
}

// boolOf reads a boolean.
func boolOf(n *yaml.Node) (value, ok bool) {
	if n.Kind != yaml.ScalarNode {
		return false, false
	}
	if n.ShortTag() == "!!bool" {
		return value, n.Decode(&value) == nil
	}
	if n.ShortTag() == "!!str" && n.Style == 0 {
		value, ok = yaml11Bools[n.Value]
	}
	return value, ok
}

// textOf reads a scalar as the string it stands for in a list or map of
// strings, where Kubernetes tools take booleans and numbers as well.
func textOf(n *yaml.Node) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		return "", false
	}
	if b, ok := boolOf(n); ok {
		return strconv.FormatBool(b), true
	}
	var i int64
	var f float64
	switch tag := n.ShortTag(); {
	case tag == "!!str" || tag == "!!timestamp":
		return n.Value, true
	case tag == "!!int" && n.Decode(&i) == nil:
		return strconv.FormatInt(i, 10), true
	case tag == "!!float" && n.Decode(&f) == nil:
		return strconv.FormatFloat(f, 'g', -1, 64), true
	}
	return "", false
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// describe says what a node is, for a message. It doesn't show the value.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
	default:
		return "an alias"
	}
	switch tag := n.ShortTag(); tag {
	case "!!null":
		return "null"
	case "!!bool":
		return "a boolean"
	case "!!int", "!!float":
		return "a number"
	case "!!str", "!!timestamp":
		if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			return "a string in quotes"
		}
		return "a string"
	default:
		return "a value tagged " + quote(tag)
	}
}

// closestScalar suggests one of the words for an unquoted scalar.
func closestScalar(n *yaml.Node, words ...string) string {
	if n.Kind != yaml.ScalarNode || n.Style != 0 {
		return ""
	}
	return closest(n.Value, words)
}
