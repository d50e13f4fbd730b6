// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// A Descriptor tells a console how to show a field, and how to ask for it.
type Descriptor struct {
	Path         string
	DisplayName  string
	Description  string
	XDescriptors []string
}

// What consoles understand.
const (
	widget     = "urn:alm:descriptor:com.tectonic.ui:"
	kubernetes = "urn:alm:descriptor:io.kubernetes"
	text       = "urn:alm:descriptor:text"
)

// maxDepth is how deep below spec a form goes: deeper fields are for YAML.
const maxDepth = 4

// first lists what people look for first in a form; last what few people need.
var (
	first = []string{"replicas", "replicaCount", "version", "image"}
	last  = []string{
		"affinity", "disableHooks", "imagePullSecrets", "maxHistory", "nodeSelector", "release", "retries",
		"securityContext", "serviceAccount", "tolerations",
	}
)

// SpecDescriptors makes descriptors of the fields of a schema's spec.
func SpecDescriptors(schema *apiextensionsv1.JSONSchemaProps) []Descriptor {
	spec := schema.Properties["spec"]
	return fields(&spec, "", 1, nil)
}

// fields describes the properties of an object at path. Its inherited
// descriptors say which groups it is in and what it depends on.
func fields(schema *apiextensionsv1.JSONSchemaProps, path string, depth int, inherited []string) []Descriptor {
	names := sortedKeys(schema.Properties)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	_, switched := schema.Properties["enabled"]
	var out []Descriptor
	for _, name := range names {
		property := schema.Properties[name]
		x := slices.Clone(inherited)
		if switched && name != "enabled" {
			x = append(x, widget+"fieldDependency:"+path+"enabled:true")
		}
		if depth == 1 && slices.Contains(last, name) {
			x = append(x, widget+"advanced")
		}
		out = append(out, field(&property, name, path+name, depth, x)...)
	}
	return out
}

// field describes one property, and what is below it.
func field(property *apiextensionsv1.JSONSchemaProps, name, path string, depth int, x []string) []Descriptor {
	self := Descriptor{Path: path, DisplayName: label(name), Description: firstParagraph(property.Description)}
	control := control(property, name)
	self.XDescriptors = append(slices.Clone(x), control...)
	out := []Descriptor{self}
	if control != nil || depth >= maxDepth {
		return out
	}
	switch {
	case len(property.Properties) > 0:
		out[0].XDescriptors = append(ungrouped(x), widget+"fieldGroup:"+path)
		out = append(out, fields(property, path+".", depth+1, append(ungrouped(x), widget+"fieldGroup:"+path))...)
	case property.Items != nil && property.Items.Schema != nil && len(property.Items.Schema.Properties) > 0:
		group := widget + "arrayFieldGroup:" + path
		for _, below := range fields(property.Items.Schema, path+"[0].", maxDepth, append(ungrouped(x), group)) {
			// A form can't ask for lists and objects within a list's items.
			if slices.ContainsFunc(below.XDescriptors, isControl) {
				out = append(out, below)
			}
		}
	}
	return out
}

// ungrouped leaves out the group that descriptors are in: there is one at a time.
func ungrouped(descriptors []string) []string {
	return slices.DeleteFunc(slices.Clone(descriptors), func(x string) bool {
		return strings.HasPrefix(x, widget+"fieldGroup:")
	})
}

func isControl(x string) bool {
	for _, group := range []string{"fieldGroup:", "arrayFieldGroup:", "fieldDependency:", "advanced"} {
		if strings.HasPrefix(x, widget+group) {
			return false
		}
	}
	return true
}

// control says what a console asks for a field with, nil if with nothing in particular.
func control(property *apiextensionsv1.JSONSchemaProps, name string) []string {
	switch {
	case name == "resources" && property.Properties["limits"].Type != "" && property.Properties["requests"].Type != "":
		return []string{widget + "resourceRequirements"}
	case name == "nodeAffinity" || name == "podAffinity" || name == "podAntiAffinity":
		return []string{widget + name}
	case property.Type == "boolean":
		return []string{widget + "booleanSwitch"}
	case property.Type == "integer" && (name == "replicas" || name == "replicaCount"):
		return []string{widget + "podCount"}
	case property.Type == "integer" || property.Type == "number":
		return []string{widget + "number"}
	case property.Type == "string" || property.XIntOrString:
		return stringControl(property, name)
	default:
		return nil
	}
}

// references are fields that name an object, by the kind that they name.
var references = map[string]string{
	"secretName":         "Secret",
	"serviceAccountName": "ServiceAccount",
	"storageClass":       "StorageClass",
	"plan":               "ConfigMap",
}

func stringControl(property *apiextensionsv1.JSONSchemaProps, name string) []string {
	if name == "pullPolicy" || name == "imagePullPolicy" {
		return []string{widget + "imagePullPolicy"}
	}
	if kind, known := references[name]; known {
		return []string{kubernetes + ":" + kind}
	}
	var out []string
	for _, value := range enum(property) {
		out = append(out, widget+"select:"+value)
	}
	if out == nil {
		out = []string{widget + "text"}
	}
	return out
}

// enum returns the strings that a property may be. A nullable one has them under allOf.
func enum(property *apiextensionsv1.JSONSchemaProps) []string {
	values := property.Enum
	for _, part := range property.AllOf {
		values = append(values, part.Enum...)
	}
	var out []string
	for _, value := range values {
		var s string
		if json.Unmarshal(value.Raw, &s) == nil && s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// StatusDescriptors makes descriptors of what a schema's status tells people.
func StatusDescriptors(schema *apiextensionsv1.JSONSchemaProps) []Descriptor {
	status := schema.Properties["status"]
	return statusFields(&status, "", "")
}

func statusFields(schema *apiextensionsv1.JSONSchemaProps, path, title string) []Descriptor {
	names := sortedKeys(schema.Properties)
	order := []string{"phase", "message", "conditions"}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(place(order, a), place(order, b)) })
	var out []Descriptor
	for _, name := range names {
		property := schema.Properties[name]
		d := Descriptor{Path: path + name, DisplayName: title + label(name), Description: firstParagraph(property.Description)}
		switch {
		case name == "observedGeneration" || strings.HasPrefix(name, "lastHandled"):
			continue // between the operator and the API server
		case name == "conditions":
			d.XDescriptors = []string{kubernetes + ".conditions"}
		case name == "phase":
			d.XDescriptors = []string{kubernetes + ".phase"}
		case property.Type == "object" && path == "":
			out = append(out, statusFields(&property, name+".", label(name)+" ")...)
			continue
		case property.Type == "array" || property.Type == "object":
			continue
		case references[name] != "":
			d.XDescriptors = []string{kubernetes + ":" + references[name]}
		default:
			d.XDescriptors = []string{text}
		}
		out = append(out, d)
	}
	return out
}

// place is a name's index in a list; all that are not in it come after.
func place(list []string, name string) int {
	if i := slices.Index(list, name); i >= 0 {
		return i
	}
	return len(list)
}

func rank(name string) int {
	if name == "enabled" {
		return -1 // before what it switches
	}
	if slices.Contains(last, name) {
		return len(first) + 1
	}
	return place(first, name)
}

// label makes words of a field's name: Pull Policy of pullPolicy.
func label(name string) string {
	var words []string
	start := 0
	for i, r := range name {
		if i > start && unicode.IsUpper(r) && !unicode.IsUpper(rune(name[i-1])) {
			words = append(words, name[start:i])
			start = i
		}
	}
	words = append(words, name[start:])
	for i, word := range words {
		switch lower := strings.ToLower(word); lower {
		case "tls", "cpu", "url", "api":
			words[i] = strings.ToUpper(word)
		default:
			words[i] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, " ")
}

func lowerFirst(name string) string {
	return strings.ToLower(name[:1]) + name[1:]
}
