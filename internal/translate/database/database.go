// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package database turns the spec of a Database into the values of chart database.
package database

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/translate"
)

// Translator translates Databases. spec.deletionPolicy is not among the values:
// it says what the operator does when the Database is deleted, and changes
// nothing that is released.
type Translator struct{}

var _ translate.Translator = Translator{}

// Translate implements [translate.Translator]. Fields that the spec leaves out
// get the CRD's defaults, so the outcome is the same whether or not the API
// server has filled them in. What the chart can't be released with is an error
// that names the field by its path.
func (Translator) Translate(obj *unstructured.Unstructured) (map[string]any, error) {
	spec, err := decode(obj)
	if err != nil {
		return nil, err
	}
	setDefaults(spec)
	if err := validate(obj.GetName(), spec).ToAggregate(); err != nil {
		return nil, err
	}
	return values(obj.GetName(), spec)
}

// values are the chart's values of a complete and valid spec. What the spec
// leaves open is left out, so that spec.release.valuesFrom can supply it.
func values(name string, spec *v1alpha1.DatabaseSpec) (map[string]any, error) {
	storage := map[string]any{"size": spec.StorageSize.String()}
	setString(storage, "className", spec.StorageClass)
	out := map[string]any{
		"name":     name,
		"version":  spec.Version,
		"replicas": int64(*spec.Replicas),
		"database": spec.Database,
		"storage":  storage,
		// Limits that are left open must not become the chart's defaults, so both are complete.
		"resources": resources(spec.Resources),
	}
	setString(out, "image", spec.Image)
	if c := spec.Credentials; c != nil && c.SecretName != "" {
		out["credentials"] = map[string]any{"secretName": c.SecretName, "usernameKeyName": c.UsernameKey, "passwordKeyName": c.PasswordKey}
	}
	if b := spec.Backup; b != nil && b.Enabled {
		out["backup"] = map[string]any{"enabled": true, "schedule": b.Schedule, "size": b.StorageSize.String(), "retention": int64(*b.Retention)}
	}
	if m := spec.Monitoring; m != nil && m.Enabled {
		monitoring := map[string]any{"enabled": true}
		setString(monitoring, "image", m.Image)
		out["monitoring"] = monitoring
	}
	if len(spec.ImagePullSecrets) > 0 {
		secrets := make([]any, 0, len(spec.ImagePullSecrets))
		for _, ref := range spec.ImagePullSecrets {
			secrets = append(secrets, map[string]any{"name": ref.Name})
		}
		out["imagePullSecrets"] = secrets
	}
	return out, placement(out, spec)
}

func resources(r v1alpha1.DatabaseResources) map[string]any {
	limits := map[string]any{"memory": r.Limits.Memory.String()}
	if r.Limits.CPU != nil {
		limits["cpu"] = r.Limits.CPU.String()
	}
	return map[string]any{
		"requests": map[string]any{"cpu": r.Requests.CPU.String(), "memory": r.Requests.Memory.String()},
		"limits":   limits,
	}
}

// placement adds where the servers may run.
func placement(out map[string]any, spec *v1alpha1.DatabaseSpec) error {
	if len(spec.NodeSelector) > 0 {
		selector := make(map[string]any, len(spec.NodeSelector))
		for k, v := range spec.NodeSelector {
			selector[k] = string(v)
		}
		out["nodeSelector"] = selector
	}
	if len(spec.Tolerations) > 0 {
		tolerations := make([]any, 0, len(spec.Tolerations))
		for i := range spec.Tolerations {
			t, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec.Tolerations[i])
			if err != nil {
				return fmt.Errorf("spec.tolerations[%d]: %w", i, err)
			}
			tolerations = append(tolerations, t)
		}
		out["tolerations"] = tolerations
	}
	if spec.Affinity != nil {
		affinity, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec.Affinity)
		if err != nil {
			return fmt.Errorf("spec.affinity: %w", err)
		}
		if len(affinity) > 0 {
			out["affinity"] = affinity
		}
	}
	return nil
}

// setString sets the key unless the value is empty.
func setString(out map[string]any, key, value string) {
	if value != "" {
		out[key] = value
	}
}
