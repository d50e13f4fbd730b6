// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/test/controlplane/olm"
	"github.com/chartgate/chartgate/test/controlplane/realnode"
	"github.com/chartgate/chartgate/test/e2e/images"
)

// TestOLMOnARealNode goes the way of a user: a catalog image, a Subscription, a
// Job that unpacks the bundle's image, an operator that runs.
func TestOLMOnARealNode(t *testing.T) {
	if err := realnode.Supported(); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cluster, err := realnode.Start(ctx, realnode.Options{MaxLife: 20 * time.Minute})
	must(t, err)
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	o, err := olm.Install(ctx, olm.Options{Config: cluster.Config(), Registry: cluster, Progress: os.Stderr})
	must(t, err)

	const namespace = "tiny"
	must(t, o.Namespace(ctx, namespace, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}))
	must(t, o.OperatorGroup(ctx, namespace, namespace))
	source := olm.CatalogSource{Namespace: namespace, Name: "test", Image: catalogImage(ctx, t, cluster, "1.0.0")}
	begin := time.Now()
	must(t, o.CatalogSource(ctx, source))
	t.Logf("catalog ready after %.1f s", time.Since(begin).Seconds())
	must(t, o.Subscribe(ctx, olm.Subscription{Namespace: namespace, Package: "tiny", Channel: "stable", Source: "test"}))
	csv, err := o.WaitInstalled(ctx, namespace, "tiny")
	must(t, err)
	t.Logf("%s installed after %.1f s", csv, time.Since(begin).Seconds())

	var jobs batchv1.JobList
	must(t, o.Client().List(ctx, &jobs, client.InNamespace(namespace)))
	if len(jobs.Items) != 1 || jobs.Items[0].Status.Succeeded != 1 {
		t.Errorf("the Jobs that unpack the bundle: %+v", jobs.Items)
	}
	var deployment appsv1.Deployment
	must(t, o.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: "tiny"}, &deployment))
	if deployment.Status.AvailableReplicas != 1 {
		t.Errorf("%d replicas of the operator are available", deployment.Status.AvailableReplicas)
	}
	source.Image = catalogImage(ctx, t, cluster, "1.0.0", "1.1.0")
	begin = time.Now()
	must(t, o.CatalogSource(ctx, source))
	t.Logf("catalog replaced after %.1f s", time.Since(begin).Seconds())
	must(t, o.WaitCSV(ctx, namespace, "tiny.v1.1.0", "Succeeded"))
	t.Logf("upgraded after %.1f s", time.Since(begin).Seconds())

	packages, err := o.WaitPackage(ctx, namespace, "tiny")
	must(t, err)
	if !slices.Equal(packages, []string{"tiny"}) {
		t.Errorf("packages %q are listed, want tiny alone", packages)
	}
	must(t, o.Remove(ctx, namespace, "tiny"))
}

// catalogImage makes a catalog of versions of the tiny operator that really run,
// and the images of all of it.
func catalogImage(ctx context.Context, t *testing.T, registry olm.Registry, versions ...string) string {
	t.Helper()
	pushed, err := images.Push(ctx, registry)
	must(t, err)
	catalog := tiny(t, versions...)
	for i, number := range versions {
		dir := version(t, number, func(csv *unstructured.Unstructured) error {
			return setImage(csv, pushed[images.Hello])
		})
		image, err := olm.BundleImage(ctx, registry, "tiny-bundle:v"+number, dir)
		must(t, err)
		catalog.Bundles[i] = olm.Bundle{Dir: dir, Image: image}
	}
	configs := filepath.Join(t.TempDir(), "configs")
	must(t, catalog.Write(ctx, configs))
	image, err := olm.CatalogImage(ctx, registry, "tiny-catalog:v"+versions[len(versions)-1], configs)
	must(t, err)
	return image
}

// setImage gives the operator's container another image.
func setImage(csv *unstructured.Unstructured, image string) error {
	path := []string{"spec", "install", "spec", "deployments"}
	deployments, _, err := unstructured.NestedSlice(csv.Object, path...)
	if err != nil {
		return err
	}
	pod := deployments[0].(map[string]any)["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	container := pod["containers"].([]any)[0].(map[string]any)
	container["image"] = image
	container["args"] = []any{"serve", "--http", "8080"}
	return unstructured.SetNestedSlice(csv.Object, deployments, path...)
}
