// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/operator-framework/helm-operator-plugins/pkg/annotation"
	plugin "github.com/operator-framework/helm-operator-plugins/pkg/reconciler"
	"github.com/operator-framework/helm-operator-plugins/pkg/values"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/internal/release"
	"github.com/chartgate/chartgate/internal/status"
)

// Finalizer of helm-operator-plugins: it holds a resource until its release is uninstalled.
const Finalizer = "uninstall-helm-release"

// deletionTimeout is how long the plugin waits to see a resource gone. The
// buffering client tells it at once, so it is never waited for.
const deletionTimeout = 30 * time.Second

// newPlugin returns helm-operator-plugins' reconciler, to be called directly:
// every option it would default in its own set-up is given.
func newPlugin(c client.Client, engine *release.Engine, gvk schema.GroupVersionKind, log logr.Logger) (*plugin.Reconciler, error) {
	// The chart and values that count are the session's. The plugin coalesces
	// values with the chart it holds, which undoes null, so it holds an empty one.
	placeholder := chart.Chart{Metadata: &chart.Metadata{Name: "chartgate"}}
	r, err := plugin.New(
		plugin.WithClient(status.BufferClient{Client: c}),
		plugin.WithActionClientGetter(engine),
		plugin.WithEventRecorder(discardEvents{}),
		plugin.WithLog(log.V(1)),
		plugin.WithGroupVersionKind(gvk),
		plugin.WithChart(placeholder),
		plugin.WithValueTranslator(values.TranslatorFunc(sessionValues)),
		plugin.WithValueMapper(values.MapperFunc(func(v chartutil.Values) chartutil.Values { return v })),
		plugin.WithMaxReleaseHistory(0), // the session's settings say
		plugin.WithWaitForDeletionTimeout(deletionTimeout),
		plugin.SkipDependentWatches(true),
		plugin.WithInstallAnnotations(annotation.DefaultInstallAnnotations...),
		plugin.WithUpgradeAnnotations(annotation.DefaultUpgradeAnnotations...),
		plugin.WithUninstallAnnotations(annotation.DefaultUninstallAnnotations...),
	)
	if err != nil {
		return nil, fmt.Errorf("reconciler of %s: %w", gvk, err)
	}
	return r, nil
}

type valuesKey struct{}

// sessionValues hands the plugin the values that were digested.
func sessionValues(ctx context.Context, _ *unstructured.Unstructured) (chartutil.Values, error) {
	v, ok := ctx.Value(valuesKey{}).(map[string]any)
	if !ok {
		return nil, errors.New("no values in the context")
	}
	return v, nil
}

// runPlugin calls the plugin for exactly the request's snapshot.
func (r *Reconciler) runPlugin(ctx context.Context, req *Request) (*status.Buffer, error) {
	buffer := status.NewBuffer(req.Object)
	ctx = status.WithBuffer(ctx, buffer)
	ctx = release.WithSession(ctx, req.Session)
	ctx = context.WithValue(ctx, valuesKey{}, req.Values)
	_, err := r.plugin.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(req.Object)})
	return buffer, err
}

// discardEvents takes the plugin's events, which only repeat override values.
type discardEvents struct{}

var _ record.EventRecorder = discardEvents{}

func (discardEvents) Event(runtime.Object, string, string, string)          {}
func (discardEvents) Eventf(runtime.Object, string, string, string, ...any) {}
func (discardEvents) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}
