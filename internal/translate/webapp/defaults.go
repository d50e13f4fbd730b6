// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// setDefaults fills in what the CRD's schema fills in, for objects of a cluster
// whose CRD doesn't.
func setDefaults(spec *v1alpha1.WebAppSpec) {
	orElse(&spec.Replicas, 1)
	orElse(&spec.Port, 80)
	orQuantity(&spec.Resources.Requests.CPU, "50m")
	orQuantity(&spec.Resources.Requests.Memory, "64Mi")
	orQuantity(&spec.Resources.Limits.CPU, "500m")
	orQuantity(&spec.Resources.Limits.Memory, "128Mi")
	orElse(&spec.Probe.Enabled, true)
	orElse(&spec.Probe.InitialDelaySeconds, 0)
	orElse(&spec.Probe.PeriodSeconds, 10)
	orElse(&spec.Probe.TimeoutSeconds, 1)
	orElse(&spec.Probe.FailureThreshold, 3)
	orElse(&spec.Probe.StartupSeconds, 300)
	if spec.SecurityContext.Profile == "" {
		spec.SecurityContext.Profile = v1alpha1.ProfileBaseline
	}
	if s := spec.Storage; s != nil {
		orQuantity(&s.Size, "1Gi")
		if s.MountPath == "" {
			s.MountPath = "/data"
		}
		if s.AccessMode == "" {
			s.AccessMode = v1alpha1.AccessReadWriteOnce
		}
	}
}

func orElse[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func orQuantity(field **resource.Quantity, value string) {
	if *field == nil {
		q := resource.MustParse(value)
		*field = &q
	}
}
