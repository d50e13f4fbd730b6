// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/chartsource"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/release"
	"github.com/chartgate/chartgate/internal/translate"
	"github.com/chartgate/chartgate/internal/translate/bundled"
	"github.com/chartgate/chartgate/internal/watch"
)

// kind is one entry of watches.yaml with all it takes to reconcile it.
type kind struct {
	watch         watch.Watch
	translator    translate.Translator
	source        chartsource.Source
	checkInterval func(*unstructured.Unstructured) int32
	period        time.Duration
	timeout       time.Duration
	maxConcurrent int
	// serviceAccount of a resource's namespace that serves it where it names none; empty for the operator.
	serviceAccount string
}

// serviceAccount that serves resources of the kind which name none: the watch's, else that of
// --default-service-account. Where whoever writes a resource chooses what is released, it is never the operator.
func serviceAccount(o *options, w watch.Watch) string {
	account := cmp.Or(w.ServiceAccount, o.defaultServiceAccount)
	if account == "" && w.Source != watch.SourceBundled {
		account = "default"
	}
	return account
}

// known are the names that watches.yaml may use.
func known() watch.Known {
	var types []string
	for t := range maps.Keys(gate.Evaluators(gate.Options{})) {
		types = append(types, string(t))
	}
	slices.Sort(types)
	return watch.Known{GateTypes: types, Translators: slices.Sorted(maps.Keys(bundled.Translators()))}
}

// kindGates tells the gates that watches.yaml gives each kind.
func kindGates(kinds []kind) gate.KindGates {
	byKind := map[schema.GroupKind][]v1alpha1.Gate{}
	for _, k := range kinds {
		byKind[k.watch.GroupVersionKind.GroupKind()] = k.watch.Gates
	}
	return func(gk schema.GroupKind) ([]v1alpha1.Gate, bool) {
		gates, ok := byKind[gk]
		return gates, ok
	}
}

// loadKinds loads the charts of all watches, and checks their gates.
func loadKinds(o *options, shared *charts, watches []watch.Watch) ([]kind, error) {
	kinds := make([]kind, 0, len(watches))
	gates := gate.NewSet(gate.Evaluators(gate.Options{}))
	for _, w := range watches {
		if err := gates.Check(w.Gates); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", o.watchesFile, w.Line, err)
		}
		k, err := loadKind(o, shared, w)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", o.watchesFile, w.Line, err)
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

func loadKind(o *options, shared *charts, w watch.Watch) (kind, error) {
	k := kind{watch: w, period: o.reconcilePeriod, timeout: o.timeout, maxConcurrent: o.maxConcurrentReconciles,
		serviceAccount: serviceAccount(o, w)}
	if w.ReconcilePeriod != nil {
		k.period = *w.ReconcilePeriod
	}
	if w.MaxConcurrentReconciles != nil {
		k.maxConcurrent = *w.MaxConcurrentReconciles
	}
	var err error
	switch w.Source {
	case watch.SourceRepository:
		err = k.fromRepository(shared)
	case watch.SourceInline:
		k.source = shared.inline
		k.translator = passThrough(w, v1alpha1.GatesField, v1alpha1.ReleaseField, chartsource.ResourcesField)
	default:
		err = k.fromBundle()
	}
	if w.Translator != "" {
		k.translator = bundled.Translators()[w.Translator]
	}
	return k, err
}

// fromBundle loads the chart that comes with the operator.
func (k *kind) fromBundle() error {
	w := k.watch
	source, err := chartsource.LoadBundled(w.ChartPath, release.ChartDigest)
	if err != nil {
		return err
	}
	reserved := []string{v1alpha1.GatesField, v1alpha1.ReleaseField}
	if w.ValuesPath == watch.DefaultValuesPath {
		if clash := chartsource.ReservedKeys(source.Chart().Chart, reserved...); len(clash) > 0 {
			if w.GroupVersionKind.Group == v1alpha1.GroupVersion.Group {
				return fmt.Errorf("chart %s has values named %s, which are Chartgate's own fields of the spec; set valuesPath: spec.values in this watch",
					w.ChartPath, strings.Join(clash, " and "))
			}
			reserved = nil
		}
	}
	k.source, k.translator = source, passThrough(w, reserved...)
	return nil
}

// fromRepository takes the chart from where each resource says. What values it
// has is not known, so they need a place of their own.
func (k *kind) fromRepository(shared *charts) error {
	if k.watch.ValuesPath == watch.DefaultValuesPath {
		return errors.New("source Repository takes the chart from spec.chart of each resource, so the values can't be all of spec; set valuesPath: spec.values in this watch")
	}
	source, err := shared.fromRepositories()
	if err != nil {
		return err
	}
	k.source, k.translator, k.checkInterval = source, passThrough(k.watch), chartsource.CheckInterval
	return nil
}

// passThrough takes the values from the resource as they stand, but for those keys of spec that are not values.
func passThrough(w watch.Watch, reserved ...string) translate.PassThrough {
	if w.ValuesPath != watch.DefaultValuesPath {
		reserved = nil
	}
	return translate.PassThrough{Path: w.ValuesPath, Reserved: reserved}
}
