// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/controlplane/olm"
)

const tinyBundle = "testdata/tiny"

func TestMain(m *testing.M) { os.Exit(controlplane.Main(m, controlplane.Options{Nodes: 1})) }

// shared is the OLM of this package's tests on simulated nodes.
var shared struct {
	once  sync.Once
	quick *olm.Quick
	err   error
}

func quick(t *testing.T) *olm.Quick {
	t.Helper()
	cluster := controlplane.Shared(t)
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
		defer cancel()
		shared.quick, shared.err = olm.StartQuick(ctx, cluster, os.Stderr)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.quick
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// version makes the bundle of a version of the tiny operator.
func version(t *testing.T, number string, edit func(csv *unstructured.Unstructured) error) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), number)
	must(t, olm.CopyBundle(tinyBundle, dir, func(csv *unstructured.Unstructured) error {
		csv.SetName("tiny.v" + number)
		if err := unstructured.SetNestedField(csv.Object, number, "spec", "version"); err != nil {
			return err
		}
		if edit == nil {
			return nil
		}
		return edit(csv)
	}))
	return dir
}

// tiny is a catalog of the tiny operator whose versions replace each other.
func tiny(t *testing.T, versions ...string) olm.Catalog {
	t.Helper()
	channel := olm.Channel{Name: "stable"}
	catalog := olm.Catalog{Package: "tiny"}
	for i, number := range versions {
		entry := olm.Entry{Name: "tiny.v" + number}
		if i > 0 {
			entry.Replaces = "tiny.v" + versions[i-1]
		}
		channel.Entries = append(channel.Entries, entry)
		catalog.Bundles = append(catalog.Bundles, olm.Bundle{Dir: version(t, number, nil)})
	}
	catalog.Channels = []olm.Channel{channel}
	return catalog
}

func TestSubscriptionInstallsUpgradesAndIsRemoved(t *testing.T) {
	q, ctx := quick(t), testContext(t)
	namespace := controlplane.Shared(t).Namespace(t)
	must(t, q.OperatorGroup(ctx, namespace, namespace))
	must(t, q.Catalog(ctx, namespace, "test", tiny(t, "1.0.0")))
	must(t, q.Subscribe(ctx, olm.Subscription{Namespace: namespace, Package: "tiny", Channel: "stable", Source: "test"}))
	csv, err := q.WaitInstalled(ctx, namespace, "tiny")
	must(t, err)
	if csv != "tiny.v1.0.0" {
		t.Errorf("installed %s", csv)
	}
	var deployment appsv1.Deployment
	must(t, q.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: "tiny"}, &deployment))
	if targets := deployment.Spec.Template.Annotations["olm.targetNamespaces"]; targets != namespace {
		t.Errorf("the operator watches %q, want its own namespace", targets)
	}

	must(t, q.Catalog(ctx, namespace, "test", tiny(t, "1.0.0", "1.1.0")))
	must(t, q.WaitCSV(ctx, namespace, "tiny.v1.1.0", "Succeeded"))
	if csv, err = q.WaitInstalled(ctx, namespace, "tiny"); err != nil || csv != "tiny.v1.1.0" {
		t.Errorf("installed %s, %v after the catalog has a new version", csv, err)
	}

	must(t, q.Remove(ctx, namespace, "tiny"))
	if err := q.Client().Get(ctx, client.ObjectKeyFromObject(&deployment), &deployment); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the Deployment after the removal: %v, want NotFound", err)
	}
}

func TestManualApprovalHoldsEveryVersionBack(t *testing.T) {
	q, ctx := quick(t), testContext(t)
	namespace := controlplane.Shared(t).Namespace(t)
	must(t, q.OperatorGroup(ctx, namespace))
	must(t, q.Catalog(ctx, namespace, "test", tiny(t, "1.0.0", "1.1.0")))
	must(t, q.Subscribe(ctx, olm.Subscription{
		Namespace: namespace, Package: "tiny", Channel: "stable", Source: "test",
		Approval: olm.Manual, StartingCSV: "tiny.v1.0.0",
	}))
	removedAtEnd(t, q, namespace)
	for _, csv := range []string{"tiny.v1.0.0", "tiny.v1.1.0"} {
		plan, err := q.WaitInstallPlan(ctx, namespace, csv)
		must(t, err)
		if err := q.WaitCSV(shortContext(t), namespace, csv, "Succeeded"); err == nil {
			t.Fatalf("%s is installed without approval", csv)
		}
		must(t, q.Approve(ctx, namespace, plan))
		must(t, q.WaitCSV(ctx, namespace, csv, "Succeeded"))
	}
}

func TestUnsupportedInstallModeIsExplained(t *testing.T) {
	q, ctx := quick(t), testContext(t)
	namespace := controlplane.Shared(t).Namespace(t)
	bundle := version(t, "1.0.0", func(csv *unstructured.Unstructured) error {
		modes := []any{}
		for _, mode := range []string{"OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"} {
			modes = append(modes, map[string]any{"type": mode, "supported": mode != "AllNamespaces"})
		}
		return unstructured.SetNestedSlice(csv.Object, modes, "spec", "installModes")
	})
	must(t, q.OperatorGroup(ctx, namespace))
	must(t, q.Catalog(ctx, namespace, "test", olm.Catalog{
		Package:  "tiny",
		Channels: []olm.Channel{{Name: "stable", Entries: []olm.Entry{{Name: "tiny.v1.0.0"}}}},
		Bundles:  []olm.Bundle{{Dir: bundle}},
	}))
	must(t, q.Subscribe(ctx, olm.Subscription{Namespace: namespace, Package: "tiny", Channel: "stable", Source: "test"}))
	removedAtEnd(t, q, namespace)
	must(t, q.WaitCSV(ctx, namespace, "tiny.v1.0.0", "Failed"))

	_, err := q.WaitInstalled(shortContext(t), namespace, "tiny")
	if err == nil {
		t.Fatal("an operator is installed in a mode that it does not support")
	}
	for _, want := range []string{"UnsupportedOperatorGroup", "AllNamespaces", namespace, "Subscriptions", "ClusterServiceVersions"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}

// removedAtEnd removes the operator at the end of the test, since no two may own
// one kind.
func removedAtEnd(t *testing.T, q *olm.Quick, namespace string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := q.Remove(ctx, namespace, "tiny"); err != nil {
			t.Error(err)
		}
	})
}

// shortContext ends soon: for what must not come true.
func shortContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, fmt.Errorf("it did not come true within 2 s"))
	t.Cleanup(cancel)
	return ctx
}

func TestCatalogThatOPMRefusesIsAnError(t *testing.T) {
	catalog := tiny(t, "1.0.0")
	catalog.Channels[0].Entries[0].Name = "tiny.v9.9.9"
	err := catalog.Write(testContext(t), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "not found in any channel") {
		t.Errorf("got %v, want what opm says of the bundle that no channel has", err)
	}
}
