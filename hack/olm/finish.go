// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The channels of Chartgate's catalog.
const (
	// ChannelStable has the released versions. It is the default.
	ChannelStable = "stable"
	// ChannelCandidate has those to come as well.
	ChannelCandidate = "candidate"
)

// Channels returns the channels that a version is in.
func Channels(version string) ([]string, error) {
	parsed, err := semver.StrictNewVersion(version)
	if err != nil {
		return nil, fmt.Errorf("version %q: %w", version, err)
	}
	if parsed.Prerelease() != "" {
		return []string{ChannelCandidate}, nil
	}
	return []string{ChannelStable, ChannelCandidate}, nil
}

// Details is what a bundle needs to know that operator-sdk can't find out.
type Details struct {
	// Image of the operator.
	Image string
	// Icon is an SVG.
	Icon []byte
	// CreatedAt is left out if it is zero: the same sources make the same bundle.
	CreatedAt time.Time
	// Resources are the kinds that a kind's releases consist of, by the owning kind.
	Resources map[string][]Resource
}

// A Resource is a kind that an operator makes objects of.
type Resource struct {
	Kind, Version string
}

// Finish completes a bundle that operator-sdk generated, in memory: Write writes it.
func (b *Bundle) Finish(details Details) error {
	annotations := b.csv.GetAnnotations()
	delete(annotations, "createdAt")
	b.csv.SetAnnotations(annotations)
	if !details.CreatedAt.IsZero() {
		annotate(&b.csv, "createdAt", details.CreatedAt.UTC().Format(time.RFC3339))
	}
	// Any older version may be upgraded directly, so none in between has to be installed on the way.
	b.SkipRange = "<" + b.Version
	annotate(&b.csv, "olm.skipRange", b.SkipRange)
	if err := b.SetImage(details.Image); err != nil {
		return err
	}
	icon := []any{map[string]any{"mediatype": "image/svg+xml", "base64data": base64.StdEncoding.EncodeToString(details.Icon)}}
	if err := unstructured.SetNestedSlice(b.csv.Object, icon, "spec", "icon"); err != nil {
		return err
	}
	return b.describeKinds(details.Resources)
}

// describeKinds adds what a console shows about each kind, as far as the
// bundle doesn't say it already.
func (b *Bundle) describeKinds(resources map[string][]Resource) error {
	crds, err := b.CRDs()
	if err != nil {
		return err
	}
	path := []string{"spec", "customresourcedefinitions", "owned"}
	owned, _, err := unstructured.NestedSlice(b.csv.Object, path...)
	if err != nil {
		return fmt.Errorf("bundle %s: %w", b.Dir, err)
	}
	for _, o := range owned {
		entry, _ := o.(map[string]any)
		name, _, _ := unstructured.NestedString(entry, "name")
		version, _, _ := unstructured.NestedString(entry, "version")
		crd, known := crds[name]
		if !known {
			return fmt.Errorf("bundle %s: the ClusterServiceVersion owns %s, and there is no such CustomResourceDefinition", b.Dir, name)
		}
		schema := schemaOf(crd, version)
		if schema == nil {
			return fmt.Errorf("bundle %s: CustomResourceDefinition %s has no version %s with a schema", b.Dir, name, version)
		}
		setDefault(entry, "displayName", label(lowerFirst(crd.Spec.Names.Kind)))
		setDefault(entry, "description", firstParagraph(schema.Description))
		if _, set := entry["specDescriptors"]; !set {
			entry["specDescriptors"] = asList(SpecDescriptors(schema))
		}
		if status := StatusDescriptors(schema); len(status) > 0 && entry["statusDescriptors"] == nil {
			entry["statusDescriptors"] = asList(status)
		}
		if _, set := entry["resources"]; !set {
			made := resources[crd.Spec.Names.Kind]
			if len(made) == 0 { // it makes nothing, but is something
				made = []Resource{{Kind: crd.Spec.Names.Kind, Version: version}}
			}
			var list []any
			for _, resource := range made {
				list = append(list, map[string]any{"kind": resource.Kind, "version": resource.Version, "name": ""})
			}
			entry["resources"] = list
		}
	}
	return unstructured.SetNestedSlice(b.csv.Object, owned, path...)
}

func schemaOf(crd *apiextensionsv1.CustomResourceDefinition, version string) *apiextensionsv1.JSONSchemaProps {
	for _, v := range crd.Spec.Versions {
		if v.Name == version && v.Schema != nil {
			return v.Schema.OpenAPIV3Schema
		}
	}
	return nil
}

func setDefault(entry map[string]any, key, value string) {
	if text, _ := entry[key].(string); text == "" && value != "" {
		entry[key] = value
	}
}

func asList(descriptors []Descriptor) []any {
	out := make([]any, 0, len(descriptors))
	for _, d := range descriptors {
		entry := map[string]any{"path": d.Path, "displayName": d.DisplayName}
		if d.Description != "" {
			entry["description"] = d.Description
		}
		if len(d.XDescriptors) > 0 {
			var list []any
			for _, x := range d.XDescriptors {
				list = append(list, x)
			}
			entry["x-descriptors"] = list
		}
		out = append(out, entry)
	}
	return out
}

// firstParagraph returns a description's first paragraph in one line.
func firstParagraph(text string) string {
	text, _, _ = strings.Cut(text, "\n\n")
	return strings.Join(strings.Fields(text), " ")
}

// sortedKeys returns a map's keys in order.
func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
