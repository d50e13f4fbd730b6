// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"bytes"
	"fmt"
	"maps"
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
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const chartPath = "../../../helm-charts/webapp"

// loadChart loads the chart once: rendering doesn't change it.
var loadChart = sync.OnceValues(func() (*chart.Chart, error) { return loader.Load(chartPath) })

// rendered are the objects of a rendered chart, decoded strictly.
type rendered struct {
	deployment *appsv1.Deployment
	service    *corev1.Service
	account    *corev1.ServiceAccount
	claim      *corev1.PersistentVolumeClaim
	ingress    *networkingv1.Ingress
	policy     *networkingv1.NetworkPolicy
	budget     *policyv1.PodDisruptionBudget
	names      []string
}

// manifests renders the chart of a release named rel, after checking the values by its schema.
func manifests(values map[string]any) (string, error) {
	chrt, err := loadChart()
	if err != nil {
		return "", err
	}
	input, err := chartutil.ToRenderValues(chrt, values, chartutil.ReleaseOptions{Name: "rel", Namespace: "apps", Revision: 1, IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(chrt, input)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.TrimSpace(files[name]) != "" {
			fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", name, strings.TrimSpace(files[name]))
		}
	}
	return out.String(), nil
}

func render(values map[string]any) (*rendered, error) {
	text, err := manifests(values)
	if err != nil {
		return nil, err
	}
	out := &rendered{}
	for _, manifest := range releaseutil.SplitManifests(text) {
		var head releaseutil.SimpleHead
		if err := yaml.Unmarshal([]byte(manifest), &head); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, manifest)
		}
		into, err := out.object(head.Kind)
		if err != nil {
			return nil, err
		}
		if err := yaml.UnmarshalStrict([]byte(manifest), into); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, manifest)
		}
		out.names = append(out.names, head.Metadata.Name)
	}
	return out, nil
}

// object makes the object of that kind, of which there is one at most.
func (r *rendered) object(kind string) (any, error) {
	switch {
	case kind == "Deployment" && r.deployment == nil:
		r.deployment = &appsv1.Deployment{}
		return r.deployment, nil
	case kind == "Service" && r.service == nil:
		r.service = &corev1.Service{}
		return r.service, nil
	case kind == "ServiceAccount" && r.account == nil:
		r.account = &corev1.ServiceAccount{}
		return r.account, nil
	case kind == "PersistentVolumeClaim" && r.claim == nil:
		r.claim = &corev1.PersistentVolumeClaim{}
		return r.claim, nil
	case kind == "Ingress" && r.ingress == nil:
		r.ingress = &networkingv1.Ingress{}
		return r.ingress, nil
	case kind == "NetworkPolicy" && r.policy == nil:
		r.policy = &networkingv1.NetworkPolicy{}
		return r.policy, nil
	case kind == "PodDisruptionBudget" && r.budget == nil:
		r.budget = &policyv1.PodDisruptionBudget{}
		return r.budget, nil
	default:
		return nil, fmt.Errorf("the chart renders a %q that is not expected", kind)
	}
}

// app is a WebApp with the spec, which is YAML.
func app(t testing.TB, name, spec string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte("apiVersion: apps.chartgate.dev/v1alpha1\nkind: WebApp\nmetadata: {name: \"" + name + "\"}\nspec: " + spec))
	if err != nil {
		t.Fatal(err)
	}
	if err := obj.UnmarshalJSON(data); err != nil {
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

func mustRender(t testing.TB, values map[string]any) *rendered {
	t.Helper()
	r, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
