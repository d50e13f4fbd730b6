// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"context"
	"errors"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

var apiServiceKind = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}

// Options say where [Install] installs OLM.
type Options struct {
	// Config is for an administrator of the cluster.
	Config *rest.Config
	// Registry takes OLM's images.
	Registry Registry
	// Progress, if set, gets a line for every step, with the time that it took.
	Progress io.Writer
}

// Install puts OLM into a cluster whose nodes run containers and returns when
// its operators and its package server are available.
func Install(ctx context.Context, options Options) (*OLM, error) {
	o, err := New(options.Config)
	if err != nil {
		return nil, err
	}
	report := newSteps(options.Progress)

	var olmImage, opmImage string
	err = report.run("make OLM's images", func() error {
		programs, err := controlplane.Resolve(ctx, options.Progress, controlplane.OLMPrograms()...)
		if err != nil {
			return err
		}
		olmImage, opmImage, err = systemImages(ctx, options.Registry, programs)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = report.run("apply OLM's chart", func() error {
		chart, err := renderChart(ctx, olmImage, opmImage)
		if err != nil {
			return err
		}
		return o.applyChart(ctx, chart)
	})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"olm-operator", "catalog-operator"} {
		err := report.run("wait for "+name, func() error { return o.waitAvailable(ctx, SystemNamespace, name) })
		if err != nil {
			return nil, err
		}
	}
	if err := report.run("wait for OLM's package server", func() error { return o.waitPackageServer(ctx) }); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *OLM) waitAvailable(ctx context.Context, namespace, name string) error {
	err := supervise.WaitFor(ctx, fmt.Sprintf("the Deployment %s/%s", namespace, name), func(ctx context.Context) error {
		var deployment appsv1.Deployment
		if err := o.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &deployment); err != nil {
			return err
		}
		for _, condition := range deployment.Status.Conditions {
			if condition.Type == appsv1.DeploymentAvailable && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not available")
	})
	return o.explain(ctx, err, namespace)
}

// waitPackageServer waits until OLM has installed the package server, with the
// same means as any other operator, and the API server reaches it.
func (o *OLM) waitPackageServer(ctx context.Context) error {
	if err := o.WaitCSV(ctx, SystemNamespace, "packageserver", "Succeeded"); err != nil {
		return err
	}
	const name = "v1.packages.operators.coreos.com"
	err := supervise.WaitFor(ctx, "the APIService "+name, func(ctx context.Context) error {
		object, err := o.get(ctx, apiServiceKind, "", name)
		if err != nil {
			return err
		}
		for _, condition := range entries(object.Object, "status", "conditions") {
			if condition["type"] == "Available" && condition["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("it is not available: %v", entries(object.Object, "status", "conditions"))
	})
	return o.explain(ctx, err, SystemNamespace)
}
