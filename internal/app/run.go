// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/chartgate/chartgate/internal/dependents"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/identity"
	"github.com/chartgate/chartgate/internal/inputs"
	"github.com/chartgate/chartgate/internal/reconciler"
	"github.com/chartgate/chartgate/internal/release"
	"github.com/chartgate/chartgate/internal/release/store"
	"github.com/chartgate/chartgate/internal/watch"
	"github.com/chartgate/chartgate/internal/webhook"
)

const (
	// reachTimeout bounds the first request to the API server.
	reachTimeout = 10 * time.Second
	// stopTimeout is how long running Helm actions may take to notice that the operator stops.
	stopTimeout = 30 * time.Second
)

// run starts the manager and returns when ctx ends or something fails. Without
// a config it looks for one as kubectl does, then as a pod.
func run(ctx context.Context, o *options, cfg *rest.Config) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	watches, err := watch.Load(o.watchesFile, known())
	if err != nil {
		return err
	}
	shared := newCharts(&o.charts)
	defer func() { err = errors.Join(err, shared.close()) }()
	kinds, err := loadKinds(o, shared, watches)
	if err != nil {
		return err
	}
	if cfg == nil {
		if cfg, err = config.GetConfig(); err != nil {
			return fmt.Errorf("no way to reach an API server: %w", err)
		}
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = o.kubeAPIQPS, o.kubeAPIBurst
	cfg.WarningHandler = rest.NoWarnings{} // they are for the author of a manifest, not for the log
	cfg.UserAgent = "chartgate/" + Version
	if err := reach(cfg); err != nil {
		return err
	}
	mgr, err := newManager(cfg, o)
	if err != nil {
		return err
	}
	pool := identity.NewPool(cfg)
	if err := setUp(ctx, mgr, pool, o.namespaces(), kinds); err != nil {
		return err
	}
	if err := serveWebhook(mgr, pool, o); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// reach tells at once, and plainly, when there is no API server to talk to.
func reach(cfg *rest.Config) error {
	short := rest.CopyConfig(cfg)
	short.Timeout = reachTimeout
	dc, err := discovery.NewDiscoveryClientForConfig(short)
	if err != nil {
		return fmt.Errorf("API server at %s: %w", cfg.Host, err)
	}
	if _, err := dc.ServerVersion(); err != nil {
		return fmt.Errorf("the API server at %s cannot be reached: %w", cfg.Host, err)
	}
	return nil
}

func newManager(cfg *rest.Config, o *options) (manager.Manager, error) {
	stop := stopTimeout
	metrics := metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: o.metricsSecure}
	if !o.enableHTTP2 {
		metrics.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	}
	if o.metricsRequireRBAC {
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	caching := cache.Options{DefaultTransform: cache.TransformStripManagedFields()}
	if namespaces := o.namespaces(); len(namespaces) > 0 {
		caching.DefaultNamespaces = map[string]cache.Config{}
		for _, ns := range namespaces {
			caching.DefaultNamespaces[ns] = cache.Config{}
		}
	}
	if o.watchLabelSelector != "" {
		selector, err := labels.Parse(o.watchLabelSelector)
		if err != nil {
			return nil, fmt.Errorf("--watch-label-selector: %w", err)
		}
		caching.DefaultLabelSelector = selector
	}
	mgr, err := manager.New(cfg, manager.Options{
		Cache:                         caching,
		Metrics:                       metrics,
		HealthProbeBindAddress:        o.probeAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              o.leaderElectionID,
		LeaderElectionNamespace:       o.leaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &stop,
		// Kinds are unique in watches.yaml, and a process may run one manager after the other.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return nil, fmt.Errorf("health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return nil, fmt.Errorf("readiness check: %w", err)
	}
	return mgr, nil
}

// setUp adds a controller for every kind, whose resources in the namespaces it serves; without any, in all.
func setUp(ctx context.Context, mgr manager.Manager, pool *identity.Pool, namespaces []string, kinds []kind) error {
	operator, err := pool.For(identity.Operator)
	if err != nil {
		return err
	}
	wakes := reconciler.NewWakes()
	wake := func(owner dependents.Owner) {
		if len(namespaces) == 0 || slices.Contains(namespaces, owner.Namespace) {
			wakes.Wake(owner)
		}
	}
	tracker := dependents.NewTracker(ctx, pool, namespaces, mgr.GetLogger().WithName("dependents"), wake)
	var engine *release.Engine
	releases := store.New(ctx, pool, namespaces, mgr.GetLogger().WithName("store"), func(namespace, name string) { engine.Changed(namespace, name) })
	engine = release.NewEngine(release.Options{Pool: pool, Tracker: tracker, Store: releases, Holder: holder(), Wake: wake})
	gateInputs := inputs.New(ctx, pool, mgr.GetLogger().WithName("inputs"), wake)
	gates := gate.NewSet(gate.Evaluators(gate.Options{Protection: gateInputs.Protection(namespaces...), KindGates: kindGates(kinds)}))
	recorder := newRecorder(ctx, operator.Kubernetes)
	for _, k := range kinds {
		err := reconciler.Setup(mgr, reconciler.Options{
			GroupVersionKind:        k.watch.GroupVersionKind,
			Translator:              k.translator,
			Overrides:               k.watch.OverrideValues,
			Source:                  k.source,
			ServiceAccount:          k.serviceAccount,
			GateSet:                 gates,
			Gates:                   k.watch.Gates,
			Inputs:                  gateInputs,
			AllowCrossNamespaceRefs: k.watch.AllowCrossNamespaceRefs,
			CheckInterval:           k.checkInterval,
			Selector:                k.watch.Selector,
			Period:                  k.period,
			Timeout:                 k.timeout,
			MaxConcurrent:           k.maxConcurrent,
			Engine:                  engine,
			Tracker:                 tracker,
			Wakes:                   wakes,
			Recorder:                recorder,
			Kubernetes:              operator.Kubernetes,
		})
		if err != nil {
			return err
		}
		ctrl.Log.Info("Watching", "group", k.watch.GroupVersionKind.Group, "version", k.watch.GroupVersionKind.Version,
			"kind", k.watch.GroupVersionKind.Kind, "source", k.watch.Source, "chart", k.watch.ChartPath, "namespaces", namespaces)
	}
	return nil
}

// serveWebhook adds the webhook that vouches for ReleaseApprovals, where it is asked for. Every
// replica serves it, and is ready only when it does: the API server may ask any of them.
func serveWebhook(mgr manager.Manager, pool *identity.Pool, o *options) error {
	if o.webhookPort == 0 {
		return nil
	}
	operator, err := pool.For(identity.Operator)
	if err != nil {
		return err
	}
	server, err := webhook.NewServer(webhook.Options{
		Host: o.webhookHost, Port: o.webhookPort, CertDir: o.webhookCertDir, HTTP2: o.enableHTTP2,
		Reviewer: operator.Kubernetes.AuthorizationV1().SubjectAccessReviews(),
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(server); err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhook", server.StartedChecker()); err != nil {
		return fmt.Errorf("readiness check of the webhook: %w", err)
	}
	return nil
}

// holder names this process on releases that it is working on.
func holder() string {
	host, err := os.Hostname()
	if err != nil || len(validation.IsValidLabelValue(host)) > 0 || len(host) > 50 {
		host = "chartgate"
	}
	return host + "." + rand.String(8)
}

// newRecorder returns a recorder of core/v1 events, until ctx ends. The newer
// events API counts events of one reason as one, and loses their messages.
func newRecorder(ctx context.Context, client kubernetes.Interface) record.EventRecorder {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "chartgate"})
}
