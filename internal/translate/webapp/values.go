// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// values are the chart's values of a complete and valid spec. What the spec
// leaves open is left out, so that spec.release.valuesFrom can supply it.
func values(name string, spec *v1alpha1.WebAppSpec) (map[string]any, error) {
	out := map[string]any{
		"name":        name,
		"image":       spec.Image,
		ReplicasValue: int64(*spec.Replicas),
		"port":        int64(*spec.Port),
		"resources": map[string]any{
			"requests": map[string]any{"cpu": spec.Resources.Requests.CPU.String(), "memory": spec.Resources.Requests.Memory.String()},
			"limits":   map[string]any{"cpu": spec.Resources.Limits.CPU.String(), "memory": spec.Resources.Limits.Memory.String()},
		},
		"probe":           probe(spec.Probe),
		"securityContext": securityContext(spec.SecurityContext),
	}
	setStrings(out, "config", spec.Config)
	setStrings(out, "nodeSelector", spec.NodeSelector)
	if s := spec.Storage; s != nil && s.Enabled {
		storage := map[string]any{"enabled": true, "size": s.Size.String(), "mountPath": s.MountPath, "accessMode": string(s.AccessMode)}
		setString(storage, "storageClass", s.StorageClass)
		out["storage"] = storage
	}
	if in := spec.Ingress; in != nil && in.Enabled {
		out["ingress"] = ingress(in)
	}
	if len(spec.ImagePullSecrets) > 0 {
		refs := make([]any, 0, len(spec.ImagePullSecrets))
		for _, ref := range spec.ImagePullSecrets {
			refs = append(refs, map[string]any{"name": ref.Name})
		}
		out["imagePullSecrets"] = refs
	}
	if len(spec.Tolerations) > 0 {
		tolerations, err := plainList(spec.Tolerations)
		if err != nil {
			return nil, fmt.Errorf("%s.tolerations: %w", specField, err)
		}
		out["tolerations"] = tolerations
	}
	if spec.Affinity != nil {
		affinity, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec.Affinity)
		if err != nil {
			return nil, fmt.Errorf("%s.affinity: %w", specField, err)
		}
		if len(affinity) > 0 {
			out["affinity"] = affinity
		}
	}
	if p := spec.NetworkPolicy; p != nil && p.Enabled {
		policy := map[string]any{"enabled": true}
		if len(p.From) > 0 {
			from, err := plainList(p.From)
			if err != nil {
				return nil, fmt.Errorf("%s.networkPolicy.from: %w", specField, err)
			}
			policy["from"] = from
		}
		out["networkPolicy"] = policy
	}
	return out, nil
}

func ingress(in *v1alpha1.WebAppIngress) map[string]any {
	out := map[string]any{"enabled": true, "host": in.Host}
	setString(out, "className", in.ClassName)
	setStrings(out, "annotations", in.Annotations)
	if in.TLS != nil && in.TLS.Enabled {
		out["tls"] = map[string]any{"enabled": true, "secretName": in.TLS.SecretName}
	}
	return out
}

func probe(p v1alpha1.WebAppProbe) map[string]any {
	if !*p.Enabled {
		return map[string]any{"enabled": false}
	}
	out := map[string]any{
		"enabled":             true,
		"initialDelaySeconds": int64(*p.InitialDelaySeconds),
		"periodSeconds":       int64(*p.PeriodSeconds),
		"timeoutSeconds":      int64(*p.TimeoutSeconds),
		"failureThreshold":    int64(*p.FailureThreshold),
		"startupSeconds":      int64(*p.StartupSeconds),
	}
	setString(out, "path", p.Path)
	if p.Port != nil {
		out["port"] = int64(*p.Port)
	}
	return out
}

func securityContext(c v1alpha1.WebAppSecurityContext) map[string]any {
	out := map[string]any{"profile": string(c.Profile), "readOnlyRootFilesystem": c.ReadOnlyRootFilesystem}
	for _, id := range ids(c) {
		if id.value != nil {
			out[id.field] = *id.value
		}
	}
	return out
}

// id is a user or group ID of the security context, and its field.
type id struct {
	field string
	value *int64
}

func ids(c v1alpha1.WebAppSecurityContext) []id {
	return []id{{"runAsUser", c.RunAsUser}, {"runAsGroup", c.RunAsGroup}, {"fsGroup", c.FSGroup}}
}

// setString sets the key unless the value is empty.
func setString(out map[string]any, key, value string) {
	if value != "" {
		out[key] = value
	}
}

// setStrings sets the key to a map of strings unless that is empty.
func setStrings[V ~string](out map[string]any, key string, from map[string]V) {
	if len(from) == 0 {
		return
	}
	to := make(map[string]any, len(from))
	for k, v := range from {
		to[k] = string(v)
	}
	out[key] = to
}

// plainList turns a list of API types into plain maps.
func plainList[T any](items []T) ([]any, error) {
	out := make([]any, 0, len(items))
	for i := range items {
		item, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&items[i])
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return out, nil
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
