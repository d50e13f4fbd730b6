// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/chartsource"
	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/inputs"
	"github.com/chartgate/chartgate/internal/release"
	"github.com/chartgate/chartgate/internal/status"
	"github.com/chartgate/chartgate/internal/translate"
)

// Options of the reconciler of one kind. All fields but Overrides, ServiceAccount,
// Gates, AllowCrossNamespaceRefs, CheckInterval, Selector and Clock are required.
type Options struct {
	// GroupVersionKind of the resources.
	GroupVersionKind schema.GroupVersionKind
	// Translator of the spec, and values that are put over what it gives.
	Translator translate.Translator
	Overrides  map[string]any
	// Source of the chart.
	Source chartsource.Source
	// ServiceAccount of a resource's own namespace that serves it where it names none. Empty: the operator
	// itself. For kinds whose charts are chosen by whoever writes a resource it has to be set.
	ServiceAccount string
	// GateSet judges gates; Gates are those of the kind, put before a resource's own.
	// Inputs read what they look at.
	GateSet *gate.Set
	Gates   []v1alpha1.Gate
	Inputs  *inputs.Inputs
	// AllowCrossNamespaceRefs lets the gates refer to objects in any namespace.
	AllowCrossNamespaceRefs bool
	// CheckInterval is what a resource itself says of the checkInterval of all its gates, in seconds; 0
	// for nothing. Nil for kinds whose resources say nothing.
	CheckInterval func(*unstructured.Unstructured) int32
	// Selector of the resources; nil selects all.
	Selector *metav1.LabelSelector
	// Period after which a resource is looked at again. 0 turns that off.
	Period time.Duration
	// Timeout of one Helm action where the resource sets none.
	Timeout time.Duration
	// MaxConcurrent is how many resources are reconciled at a time.
	MaxConcurrent int

	// Engine releases, Tracker watches what was released, Wakes tells of changes.
	Engine  *release.Engine
	Tracker *dependents.Tracker
	Wakes   *Wakes
	// Recorder of events.
	Recorder record.EventRecorder
	// Kubernetes is asked about the API server, ServiceAccounts and namespaces, as the operator.
	Kubernetes kubernetes.Interface
	// Clock tells the time. Default: the real one.
	Clock clock.PassiveClock
}

// Setup adds a controller of the kind to the manager.
func Setup(mgr manager.Manager, o Options) error {
	selector, err := metav1.LabelSelectorAsSelector(o.Selector)
	if err != nil {
		return fmt.Errorf("selector of %s: %w", o.GroupVersionKind.Kind, err)
	}
	if o.Selector == nil {
		selector = labels.Everything()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	name := controllerName(o.GroupVersionKind)
	log := mgr.GetLogger().WithName(name)
	plugin, err := newPlugin(mgr.GetClient(), o.Engine, o.GroupVersionKind, log)
	if err != nil {
		return err
	}
	change := changeHook{engine: o.Engine, timeout: o.Timeout}
	change.placer, _ = o.Source.(chartsource.Placer)
	plans := newPlans(mgr.GetClient(), mgr.GetAPIReader(), o.Inputs)
	r := &Reconciler{
		gvk: o.GroupVersionKind, cache: mgr.GetCache(), plugin: plugin, change: change, engine: o.Engine,
		acting: acting{account: o.ServiceAccount, core: o.Kubernetes.CoreV1()},
		hooks: []PreReconcile{
			translateHook{o.Translator, o.Overrides},
			valuesHook{o.Inputs},
			chartHook{o.Source, o.Inputs},
			change,
			gateHook{
				set: o.GateSet, gates: o.Gates, inputs: o.Inputs, plans: plans,
				crossNamespace: o.AllowCrossNamespaceRefs, clock: o.Clock, interval: o.CheckInterval,
			},
		},
		inputs: o.Inputs, plans: plans,
		sourceHooks: 3, client: mgr.GetClient(),
		reserved: &reservedFields{gvk: o.GroupVersionKind, client: o.Kubernetes.Discovery().OpenAPIV3()},
		selector: selector, tracker: o.Tracker, writer: status.NewWriter(mgr.GetClient()), waits: newWaits(),
		recorder: o.Recorder, period: o.Period, clock: o.Clock,
	}
	r.observer, _ = o.Translator.(translate.Observer)
	c, err := controller.New(name, mgr, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: o.MaxConcurrent,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	})
	if err != nil {
		return fmt.Errorf("controller of %s: %w", o.GroupVersionKind, err)
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(o.GroupVersionKind)
	relevant := predicate.Or[*unstructured.Unstructured](
		predicate.TypedGenerationChangedPredicate[*unstructured.Unstructured]{},
		predicate.TypedAnnotationChangedPredicate[*unstructured.Unstructured]{},
		predicate.TypedLabelChangedPredicate[*unstructured.Unstructured]{},
	)
	if err := c.Watch(source.Kind(mgr.GetCache(), obj, &handler.TypedEnqueueRequestForObject[*unstructured.Unstructured]{}, relevant)); err != nil {
		return fmt.Errorf("watch of %s: %w", o.GroupVersionKind, err)
	}
	return c.Watch(o.Wakes.source(o.GroupVersionKind.GroupKind()))
}

// controllerName tells kinds of the same name in two groups apart.
func controllerName(gvk schema.GroupVersionKind) string {
	return strings.ToLower(gvk.Kind) + "." + gvk.Version + "." + gvk.Group
}

// Wakes takes the news that something of an owner changed to its controller.
type Wakes struct {
	mu     sync.RWMutex
	queues map[schema.GroupKind]workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// NewWakes returns a Wakes without controllers.
func NewWakes() *Wakes {
	return &Wakes{queues: map[schema.GroupKind]workqueue.TypedRateLimitingInterface[reconcile.Request]{}}
}

// Wake has the owner reconciled, if its kind is one of ours.
func (w *Wakes) Wake(owner dependents.Owner) {
	w.mu.RLock()
	queue, ok := w.queues[owner.GroupKind]
	w.mu.RUnlock()
	if ok {
		queue.Add(reconcile.Request{NamespacedName: owner.NamespacedName})
	}
}

func (w *Wakes) source(gk schema.GroupKind) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.queues[gk] = queue
		return nil
	})
}
