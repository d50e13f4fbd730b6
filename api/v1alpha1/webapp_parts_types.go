// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WebAppAccessMode says from where a volume can be used.
// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteMany;ReadWriteOncePod
type WebAppAccessMode string

// The access modes.
const (
	// AccessReadWriteOnce lets pods of one node use the volume. The default.
	AccessReadWriteOnce WebAppAccessMode = "ReadWriteOnce"
	// AccessReadWriteMany lets pods of all nodes use the volume.
	AccessReadWriteMany WebAppAccessMode = "ReadWriteMany"
	// AccessReadWriteOncePod lets a single pod use the volume.
	AccessReadWriteOncePod WebAppAccessMode = "ReadWriteOncePod"
)

// WebAppStorage is a volume that outlives the pods.
//
// +kubebuilder:validation:XValidation:rule="!self.enabled || !oldSelf.enabled || !isQuantity(string(self.size)) || !isQuantity(string(oldSelf.size)) || quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0",message="storage can't shrink: keep storage.size or make it larger"
// +kubebuilder:validation:XValidation:rule="!self.enabled || !oldSelf.enabled || (has(self.storageClass) && size(self.storageClass) > 0 ? has(oldSelf.storageClass) && self.storageClass == oldSelf.storageClass : !has(oldSelf.storageClass) || size(oldSelf.storageClass) == 0)",message="storage.storageClass can't be changed while there is a volume: set it back, or make another WebApp and copy the data"
// +kubebuilder:validation:XValidation:rule="!self.enabled || !oldSelf.enabled || self.accessMode == oldSelf.accessMode",message="storage.accessMode can't be changed while there is a volume: set it back, or make another WebApp and copy the data"
type WebAppStorage struct {
	// Enabled makes a PersistentVolumeClaim named as the WebApp. Turning it off deletes the claim and the data.
	// +optional
	// +kubebuilder:default=false
	Enabled bool `json:"enabled"`

	// Size of the volume, such as 10Gi. It can grow where the storage class allows it, never shrink.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:default="1Gi"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="not a size: write bytes, 1Mi at least, with a unit such as Mi or Gi, as in 10Gi"
	Size *resource.Quantity `json:"size,omitempty"`

	// StorageClass of the volume. Default: the cluster's default class.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="not a name of a StorageClass: use lower-case letters, digits, '-' and '.', or leave it empty for the cluster's default"
	StorageClass string `json:"storageClass,omitempty"`

	// MountPath is the directory of the volume in the container.
	// +optional
	// +kubebuilder:default="/data"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && self.matches('[^/]')",message="mountPath has to be an absolute path below /, such as /data"
	// +kubebuilder:validation:XValidation:rule="!self.contains(':') && !self.matches('(^|/)[.][.](/|$)')",message="mountPath must not contain ':' or '..'"
	MountPath string `json:"mountPath,omitempty"`

	// AccessMode of the volume. ReadWriteOnce: pods of one node, so all pods are placed on one.
	// ReadWriteMany: pods of all nodes. ReadWriteOncePod: a single pod.
	// +optional
	// +kubebuilder:default=ReadWriteOnce
	AccessMode WebAppAccessMode `json:"accessMode,omitempty"`
}

// WebAppIngress leads a host name to the application.
//
// +kubebuilder:validation:XValidation:rule="!self.enabled || (has(self.host) && size(self.host) > 0)",message="an enabled ingress needs a host: set ingress.host, such as shop.example.com"
type WebAppIngress struct {
	// Enabled makes an Ingress named as the WebApp.
	// +optional
	// +kubebuilder:default=false
	Enabled bool `json:"enabled"`

	// Host name that leads to the application, such as shop.example.com or *.example.com. Required when enabled.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || (self.matches('^([*][.])?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$') && !self.matches('^[0-9.]+$'))",message="not a host name: write a DNS name in lower case without scheme, port or path, such as shop.example.com or *.example.com"
	Host string `json:"host,omitempty"`

	// ClassName is the IngressClass. Default: the cluster's default class.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="not a name of an IngressClass: use lower-case letters, digits, '-' and '.', or leave it empty for the cluster's default"
	ClassName string `json:"className,omitempty"`

	// Annotations of the Ingress, for its controller.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="an annotation's key is a name of at most 63 characters with an optional prefix, such as nginx.ingress.kubernetes.io/proxy-body-size"
	Annotations map[string]WebAppAnnotationValue `json:"annotations,omitempty"`

	// TLS of the host.
	// +optional
	TLS *WebAppTLS `json:"tls,omitempty"`
}

// WebAppAnnotationValue is the value of an annotation.
// +kubebuilder:validation:MaxLength=65536
type WebAppAnnotationValue string

// WebAppTLS makes the Ingress answer with TLS.
//
// +kubebuilder:validation:XValidation:rule="!self.enabled || (has(self.secretName) && size(self.secretName) > 0)",message="TLS needs a certificate: set tls.secretName to the Secret that holds it, or that an issuer such as cert-manager writes it to"
type WebAppTLS struct {
	// Enabled makes the Ingress answer for its host with TLS.
	// +optional
	// +kubebuilder:default=false
	Enabled bool `json:"enabled"`

	// SecretName is the Secret of type kubernetes.io/tls that holds certificate and key. Required when enabled.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="not a name of a Secret: use lower-case letters, digits, '-' and '.'"
	SecretName string `json:"secretName,omitempty"`
}

// WebAppProbe says how to find out whether a pod is ready and alive. The same check serves three
// questions: has it started, is it ready for requests, is it alive.
type WebAppProbe struct {
	// Enabled: false turns the checks off. A pod then counts as ready as soon as it runs.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// Path to ask for with HTTP GET, such as /healthz: any answer from 200 to 399 will do. Default: none, it
	// is enough that the port accepts a TCP connection.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == '' || self.startsWith('/')",message="probe.path begins with /, such as /healthz"
	Path string `json:"path,omitempty"`

	// Port to check. Default: the port of the application.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// InitialDelaySeconds to wait before the first check.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	InitialDelaySeconds *int32 `json:"initialDelaySeconds,omitempty"`

	// PeriodSeconds from one check to the next.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	PeriodSeconds *int32 `json:"periodSeconds,omitempty"`

	// TimeoutSeconds of a check.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// FailureThreshold is how many checks in a row may fail before the pod gets no more requests, and its
	// container is started again.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`

	// StartupSeconds is how long the application may take to start. Failed checks count after it only.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	StartupSeconds *int32 `json:"startupSeconds,omitempty"`
}

// WebAppSecurityProfile is a set of rules for what a pod may do.
// +kubebuilder:validation:Enum=Baseline;Restricted
type WebAppSecurityProfile string

// The security profiles, named after the Pod Security Standards that they meet.
const (
	// ProfileBaseline runs stock images, which start as root. The default.
	ProfileBaseline WebAppSecurityProfile = "Baseline"
	// ProfileRestricted runs images that need no root.
	ProfileRestricted WebAppSecurityProfile = "Restricted"
)

// WebAppSecurityContext says what the application may do on its node.
//
// +kubebuilder:validation:XValidation:rule="!has(self.profile) || self.profile != 'Restricted' || !has(self.runAsUser) || self.runAsUser != 0",message="profile Restricted forbids root: set securityContext.runAsUser to another user than 0, or profile to Baseline"
type WebAppSecurityContext struct {
	// Profile: Baseline runs stock images such as nginx, which start as root with few capabilities.
	// Restricted forbids root and all capabilities, as the Pod Security Standard of that name asks.
	// +optional
	// +kubebuilder:default=Baseline
	Profile WebAppSecurityProfile `json:"profile,omitempty"`

	// RunAsUser is the user ID to run as. Default: the image's user.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	RunAsUser *int64 `json:"runAsUser,omitempty"`

	// RunAsGroup is the group ID to run as. Default: the image's group.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	RunAsGroup *int64 `json:"runAsGroup,omitempty"`

	// FSGroup is the group that may write to the storage. Default: RunAsGroup, else RunAsUser.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	FSGroup *int64 `json:"fsGroup,omitempty"`

	// ReadOnlyRootFilesystem makes all but the storage and /tmp read-only.
	// +optional
	// +kubebuilder:default=false
	ReadOnlyRootFilesystem bool `json:"readOnlyRootFilesystem,omitempty"`
}

// WebAppNetworkPolicy limits who may connect to the application.
type WebAppNetworkPolicy struct {
	// Enabled makes a NetworkPolicy named as the WebApp, which lets connections through to its port only.
	// +optional
	// +kubebuilder:default=false
	Enabled bool `json:"enabled"`

	// From names who may connect. Default: anyone. Name the pods of the ingress controller too.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(p, has(p.ipBlock) ? !has(p.podSelector) && !has(p.namespaceSelector) : has(p.podSelector) || has(p.namespaceSelector))",message="each peer in networkPolicy.from needs a podSelector, a namespaceSelector or both, or an ipBlock alone"
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`
}

// WebAppStatus is the state of a WebApp.
type WebAppStatus struct {
	CommonStatus `json:",inline"`

	// Replicas is the number of pods there are, old ones that are being replaced included.
	// +optional
	Replicas int32 `json:"replicas"`

	// ReadyReplicas is the number of pods that are ready for requests.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// Selector of the pods, in the form "kubectl get pods -l" takes. An autoscaler reads it.
	// +optional
	Selector string `json:"selector,omitempty"`
}

// WebAppList is a list of WebApps.
//
// +kubebuilder:object:root=true
type WebAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WebApp `json:"items"`
}
