// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// Resource is how a kind is served.
type Resource struct {
	schema.GroupResource
	// Cluster is true for a kind that is in no namespace.
	Cluster bool
}

// Kinds maps kinds to resources without asking an API server.
type Kinds struct {
	known map[schema.GroupKind]Resource
}

const (
	crdGroup = "apiextensions.k8s.io"
	crdKind  = "CustomResourceDefinition"
)

// clusterScoped are the kinds of Kubernetes that are in no namespace.
var clusterScoped = map[schema.GroupKind]bool{
	{Kind: "ComponentStatus"}:  true,
	{Kind: "Namespace"}:        true,
	{Kind: "Node"}:             true,
	{Kind: "PersistentVolume"}: true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}:          true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicyBinding"}:   true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:     true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:        true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}: true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:   true,
	{Group: crdGroup, Kind: crdKind}:                                                  true,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:                             true,
	{Group: "authentication.k8s.io", Kind: "SelfSubjectReview"}:                       true,
	{Group: "authentication.k8s.io", Kind: "TokenReview"}:                             true,
	{Group: "authorization.k8s.io", Kind: "SelfSubjectAccessReview"}:                  true,
	{Group: "authorization.k8s.io", Kind: "SelfSubjectRulesReview"}:                   true,
	{Group: "authorization.k8s.io", Kind: "SubjectAccessReview"}:                      true,
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}:                 true,
	{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}:                        true,
	{Group: "flowcontrol.apiserver.k8s.io", Kind: "FlowSchema"}:                       true,
	{Group: "flowcontrol.apiserver.k8s.io", Kind: "PriorityLevelConfiguration"}:       true,
	{Group: "internal.apiserver.k8s.io", Kind: "StorageVersion"}:                      true,
	{Group: "networking.k8s.io", Kind: "IPAddress"}:                                   true,
	{Group: "networking.k8s.io", Kind: "IngressClass"}:                                true,
	{Group: "networking.k8s.io", Kind: "ServiceCIDR"}:                                 true,
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:                                      true,
	{Group: rbacGroup, Kind: "ClusterRole"}:                                           true,
	{Group: rbacGroup, Kind: "ClusterRoleBinding"}:                                    true,
	{Group: "resource.k8s.io", Kind: "DeviceClass"}:                                   true,
	{Group: "resource.k8s.io", Kind: "DeviceTaintRule"}:                               true,
	{Group: "resource.k8s.io", Kind: "ResourcePoolStatusRequest"}:                     true,
	{Group: "resource.k8s.io", Kind: "ResourceSlice"}:                                 true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:                               true,
	{Group: "storage.k8s.io", Kind: "CSIDriver"}:                                      true,
	{Group: "storage.k8s.io", Kind: "CSINode"}:                                        true,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                                   true,
	{Group: "storage.k8s.io", Kind: "VolumeAttachment"}:                               true,
	{Group: "storage.k8s.io", Kind: "VolumeAttributesClass"}:                          true,
	{Group: "storagemigration.k8s.io", Kind: "StorageVersionMigration"}:               true,
}

// noResource are types that Kubernetes' own groups have, and that are no resource by themselves.
var noResource = map[string]bool{
	"APIGroup": true, "APIVersions": true, "DeploymentRollback": true, "Eviction": true, "RangeAllocation": true,
	"Scale": true, "SerializedReference": true, "Status": true, "TokenRequest": true, "WatchEvent": true,
}

// plurals that don't follow the rule.
var plurals = map[schema.GroupKind]string{{Kind: "Endpoints"}: "endpoints"}

// gone tells whether a kind is one that no supported version of Kubernetes
// serves any more. Charts still name it for the sake of old clusters.
func gone(gk schema.GroupKind) bool {
	return gk.Group == "extensions" || gk == schema.GroupKind{Group: "policy", Kind: "PodSecurityPolicy"}
}

// NewKinds returns the kinds of Kubernetes itself.
func NewKinds() *Kinds {
	k := &Kinds{known: map[schema.GroupKind]Resource{}}
	for gvk := range clientgoscheme.Scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || noResource[gvk.Kind] || gone(gvk.GroupKind()) ||
			strings.HasSuffix(gvk.Kind, "List") || strings.HasSuffix(gvk.Kind, "Options") {
			continue
		}
		k.builtin(gvk.GroupKind())
	}
	k.builtin(schema.GroupKind{Group: crdGroup, Kind: crdKind})
	k.builtin(schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"})
	return k
}

func (k *Kinds) builtin(gk schema.GroupKind) {
	plural := plurals[gk]
	if plural == "" {
		plural = guess(gk)
	}
	k.known[gk] = Resource{schema.GroupResource{Group: gk.Group, Resource: plural}, clusterScoped[gk]}
}

func guess(gk schema.GroupKind) string {
	plural, _ := meta.UnsafeGuessKindToResource(gk.WithVersion("v1"))
	return plural.Resource
}

// Clone returns a copy to add to.
func (k *Kinds) Clone() *Kinds {
	return &Kinds{known: maps.Clone(k.known)}
}

// Resource returns how the kind is served.
func (k *Kinds) Resource(gk schema.GroupKind) (Resource, bool) {
	r, ok := k.known[gk]
	return r, ok
}

// byName returns the kind of that name, if one group alone has it.
func (k *Kinds) byName(kind string) (schema.GroupKind, bool) {
	var found schema.GroupKind
	n := 0
	for gk := range k.known {
		if gk.Kind == kind {
			found, n = gk, n+1
		}
	}
	return found, n == 1
}

// AddCRD adds the kind that a CustomResourceDefinition defines. Other objects are passed over.
func (k *Kinds) AddCRD(obj *unstructured.Unstructured) error {
	if obj.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: crdGroup, Kind: crdKind}) {
		return nil
	}
	var crd struct {
		Spec struct {
			Group string                                        `json:"group"`
			Scope apiextensionsv1.ResourceScope                 `json:"scope"`
			Names apiextensionsv1.CustomResourceDefinitionNames `json:"names"`
		} `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &crd); err != nil {
		return fmt.Errorf("CustomResourceDefinition %s: %w", obj.GetName(), err)
	}
	names := crd.Spec.Names
	if crd.Spec.Group == "" || names.Kind == "" || names.Plural == "" {
		return fmt.Errorf("CustomResourceDefinition %s lacks spec.group, spec.names.kind or spec.names.plural", obj.GetName())
	}
	k.known[schema.GroupKind{Group: crd.Spec.Group, Kind: names.Kind}] =
		Resource{schema.GroupResource{Group: crd.Spec.Group, Resource: names.Plural}, crd.Spec.Scope == apiextensionsv1.ClusterScoped}
	return nil
}

var resourcePattern = regexp.MustCompile(`^([A-Z][A-Za-z0-9]*)((?:\.[a-z0-9][-a-z0-9]*)*)=([a-z0-9][-a-z0-9]*)(,cluster|,namespaced)?$`)

// errResource says what a resource looks like.
var errResource = errors.New("write Kind.group=plural for a kind in namespaces, such as ServiceMonitor.monitoring.coreos.com=servicemonitors, or Kind.group=plural,cluster")

// Add adds a kind as it is written on the command line: Kind.group=plural, with ",cluster" where it is in no namespace.
func (k *Kinds) Add(text string) error {
	m := resourcePattern.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("%q is no resource: %w", text, errResource)
	}
	gk := schema.GroupKind{Group: strings.TrimPrefix(m[2], "."), Kind: m[1]}
	k.known[gk] = Resource{schema.GroupResource{Group: gk.Group, Resource: m[3]}, m[4] == ",cluster"}
	return nil
}

// flagFor is what to write on the command line for a kind that is not known.
func flagFor(gk schema.GroupKind) string {
	return fmt.Sprintf("--resource %s=%s", gk, guess(gk))
}
