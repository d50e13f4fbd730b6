// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package dependents

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// metadataOnly lists the built-in kinds that are ready as soon as they exist.
var metadataOnly = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}:      true,
	{Kind: "Secret"}:         true,
	{Kind: "ServiceAccount"}: true,
	{Kind: "Endpoints"}:      true,
	{Kind: "LimitRange"}:     true,
	{Kind: "ResourceQuota"}:  true,
	{Kind: "PodTemplate"}:    true,
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:                           true,
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:                                true,
	{Group: "networking.k8s.io", Kind: "Ingress"}:                                     true,
	{Group: "networking.k8s.io", Kind: "IngressClass"}:                                true,
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:                               true,
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:                                true,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:                         true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                         true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:                  true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:                               true,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                                   true,
	{Group: "storage.k8s.io", Kind: "CSIDriver"}:                                      true,
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:                                      true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:     true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:   true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:        true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}: true,
}

// bulky are the parts of a body that readiness has no use for.
var bulky = [][]string{
	{"metadata", "managedFields"},
	{"spec", "template"},
	{"spec", "volumeClaimTemplates"},
	{"spec", "versions"},
	{"spec", "jobTemplate"},
	{"data"},
	{"binaryData"},
}

// trim drops what is not needed of an object before it is cached.
func trim(obj any) (any, error) {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		for _, path := range bulky {
			unstructured.RemoveNestedField(o.Object, path...)
		}
	case *metav1.PartialObjectMetadata:
		o.ManagedFields = nil
	case cache.DeletedFinalStateUnknown:
		return o, nil
	}
	return obj, nil
}
