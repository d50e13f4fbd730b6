// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// Names that OLM's chart gives.
const (
	// SystemNamespace holds OLM itself. Its CatalogSources are seen from all
	// namespaces.
	SystemNamespace = "olm"
	// GlobalNamespace has an OperatorGroup for all namespaces.
	GlobalNamespace = "operators"
)

// objects are what OLM's chart consists of.
type objects struct {
	definitions []*unstructured.Unstructured // CustomResourceDefinitions
	rest        []*unstructured.Unstructured // in the order in which Helm installs them
}

// renderChart renders the chart that OLM's module holds, with the values that
// its releases are made with. The images replace those of the release, and the
// catalog of the community, which is fetched from the internet, is left out.
func renderChart(ctx context.Context, olmImage, opmImage string) (objects, error) {
	module, err := controlplane.OLMModule(ctx)
	if err != nil {
		return objects{}, err
	}
	chart, err := loader.Load(filepath.Join(module.Dir, "deploy", "chart"))
	if err != nil {
		return objects{}, fmt.Errorf("load OLM's chart: %w", err)
	}
	// The releases' version is set when they are made.
	chart.Metadata.Version = strings.TrimPrefix(module.Version, "v")
	release, err := chartutil.ReadValuesFile(filepath.Join(module.Dir, "deploy", "upstream", "values.yaml"))
	if err != nil {
		return objects{}, fmt.Errorf("read the values of OLM's releases: %w", err)
	}
	image := map[string]any{"image": map[string]any{"ref": olmImage, "pullPolicy": "IfNotPresent"}}
	values := chartutil.CoalesceTables(map[string]any{
		"installType": "test",
		"olm":         maps.Clone(image),
		"catalog":     map[string]any{"image": image["image"], "opmImageArgs": "--opmImage=" + opmImage},
		"package":     map[string]any{"image": image["image"], "replicaCount": 1},
	}, release)

	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.ClientOnly, install.DryRun = true, true
	install.ReleaseName, install.Namespace = "olm", SystemNamespace
	rendered, err := install.RunWithContext(ctx, chart, values)
	if err != nil {
		return objects{}, fmt.Errorf("render OLM's chart: %w", err)
	}
	var result objects
	for _, definition := range chart.CRDObjects() {
		decoded, err := decode(definition.File.Data)
		if err != nil {
			return objects{}, fmt.Errorf("read %s of OLM's chart: %w", definition.Filename, err)
		}
		result.definitions = append(result.definitions, decoded...)
	}
	if result.rest, err = decode([]byte(rendered.Manifest)); err != nil {
		return objects{}, fmt.Errorf("read the rendered chart of OLM: %w", err)
	}
	return result, nil
}

// decode reads all objects of a YAML stream.
func decode(content []byte) ([]*unstructured.Unstructured, error) {
	var decoded []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		switch {
		case errors.Is(err, io.EOF):
			return decoded, nil
		case err != nil:
			return nil, err
		case len(object.Object) > 0:
			decoded = append(decoded, object)
		}
	}
}

// without returns the objects of other kinds.
func (o objects) without(kinds ...string) objects {
	kept := objects{definitions: o.definitions}
	for _, object := range o.rest {
		if !slices.Contains(kinds, object.GetKind()) {
			kept.rest = append(kept.rest, object)
		}
	}
	return kept
}

// apply applies the objects. It waits for the definitions before it applies
// what they define.
func (o *OLM) applyChart(ctx context.Context, chart objects) error {
	for _, definition := range chart.definitions {
		if err := o.Apply(ctx, definition); err != nil {
			return err
		}
	}
	for _, definition := range chart.definitions {
		if err := o.waitEstablished(ctx, definition.GetName()); err != nil {
			return err
		}
	}
	for _, object := range chart.rest {
		if err := o.Apply(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func (o *OLM) waitEstablished(ctx context.Context, name string) error {
	return supervise.WaitFor(ctx, "the CustomResourceDefinition "+name, func(ctx context.Context) error {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := o.client.Get(ctx, client.ObjectKey{Name: name}, &definition); err != nil {
			return err
		}
		for _, condition := range definition.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not established")
	})
}
