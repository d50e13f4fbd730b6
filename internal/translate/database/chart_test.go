// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// loadChart loads the chart once: rendering doesn't change it.
var loadChart = sync.OnceValues(func() (*chart.Chart, error) { return loader.Load("../../../helm-charts/database") })

// rendered are the objects of a rendered chart by kind and name, decoded strictly.
type rendered struct {
	sets     map[string]*appsv1.StatefulSet
	services map[string]*corev1.Service
	secrets  map[string]*corev1.Secret
	configs  map[string]*corev1.ConfigMap
	claims   map[string]*corev1.PersistentVolumeClaim
	crons    map[string]*batchv1.CronJob
	budgets  map[string]*policyv1.PodDisruptionBudget
	others   map[string]*unstructured.Unstructured
}

// manifests renders the chart of a release named rel, after checking the values by its schema, on an empty cluster.
func manifests(values map[string]any, apis ...string) (string, error) {
	return manifestsOn(secretsOf{}, values, apis...)
}

// manifestsOn renders it on a cluster with Secrets.
func manifestsOn(cluster engine.ClientProvider, values map[string]any, apis ...string) (string, error) {
	chrt, err := loadChart()
	if err != nil {
		return "", err
	}
	caps := *chartutil.DefaultCapabilities
	caps.APIVersions = append(slices.Clone(caps.APIVersions), apis...)
	input, err := chartutil.ToRenderValues(chrt, values, chartutil.ReleaseOptions{Name: "rel", Namespace: "apps", Revision: 1, IsInstall: true}, &caps)
	if err != nil {
		return "", err
	}
	files, err := engine.RenderWithClientProvider(chrt, input, cluster)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.TrimSpace(files[name]) != "" && !strings.HasSuffix(name, "NOTES.txt") {
			fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", name, strings.TrimSpace(files[name]))
		}
	}
	return out.String(), nil
}

func render(values map[string]any, apis ...string) (*rendered, error) {
	text, err := manifests(values, apis...)
	if err != nil {
		return nil, err
	}
	return parse(text)
}

func parse(text string) (*rendered, error) {
	out := &rendered{
		map[string]*appsv1.StatefulSet{}, map[string]*corev1.Service{}, map[string]*corev1.Secret{}, map[string]*corev1.ConfigMap{},
		map[string]*corev1.PersistentVolumeClaim{}, map[string]*batchv1.CronJob{}, map[string]*policyv1.PodDisruptionBudget{},
		map[string]*unstructured.Unstructured{},
	}
	for _, manifest := range releaseutil.SplitManifests(text) {
		var head releaseutil.SimpleHead
		if err := yaml.Unmarshal([]byte(manifest), &head); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, manifest)
		}
		if err := out.add(head, []byte(manifest)); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, manifest)
		}
	}
	return out, nil
}

func (r *rendered) add(head releaseutil.SimpleHead, manifest []byte) error {
	switch head.Kind {
	case "StatefulSet":
		return decodeInto(r.sets, head.Metadata.Name, manifest)
	case "Service":
		return decodeInto(r.services, head.Metadata.Name, manifest)
	case "Secret":
		return decodeInto(r.secrets, head.Metadata.Name, manifest)
	case "ConfigMap":
		return decodeInto(r.configs, head.Metadata.Name, manifest)
	case "PersistentVolumeClaim":
		return decodeInto(r.claims, head.Metadata.Name, manifest)
	case "CronJob":
		return decodeInto(r.crons, head.Metadata.Name, manifest)
	case "PodDisruptionBudget":
		return decodeInto(r.budgets, head.Metadata.Name, manifest)
	default:
		obj := &unstructured.Unstructured{}
		r.others[head.Kind+" "+head.Metadata.Name] = obj
		return yaml.Unmarshal(manifest, &obj.Object)
	}
}

func decodeInto[T any](into map[string]*T, name string, manifest []byte) error {
	if into[name] != nil {
		return fmt.Errorf("%s is there twice", name)
	}
	obj := new(T)
	into[name] = obj
	return yaml.UnmarshalStrict(manifest, obj)
}

// password matches what is random, and so has no place in golden files.
var password = regexp.MustCompile(`password: "[A-Za-z0-9+/=]{40,}"`)

// database is a Database with the spec, which is YAML.
func database(t testing.TB, name, spec string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte("apiVersion: apps.chartgate.dev/v1alpha1\nkind: Database\nmetadata: {name: \"" + name + "\"}\nspec: " + spec))
	if err == nil {
		err = obj.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func mustTranslate(t testing.TB, obj *unstructured.Unstructured) map[string]any {
	t.Helper()
	values, err := Translator{}.Translate(obj)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func mustRender(t testing.TB, values map[string]any, apis ...string) *rendered {
	t.Helper()
	r, err := render(values, apis...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
