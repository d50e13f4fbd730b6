// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindWebApp is the kind of web applications.
const KindWebApp = "WebApp"

// WebApp runs a container image as a web application: a Deployment and a Service, both named as the
// WebApp, and, as the spec asks for them, an Ingress, a PersistentVolumeClaim and a NetworkPolicy.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=webapps,singular=webapp,scope=Namespaced,shortName=wa,categories=chartgate
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`,description="Pods asked for"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Pods that are ready"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Where the application is in its life"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.spec.image`,description="Image asked for"
// +kubebuilder:printcolumn:name="Gates",type=string,priority=1,JSONPath=`.status.gatesPassed`,description="Gates that passed, of all"
// +kubebuilder:printcolumn:name="Revision",type=integer,priority=1,JSONPath=`.status.revision`,description="Deployed Helm revision"
// +kubebuilder:printcolumn:name="Chart",type=string,priority=1,JSONPath=`.status.chart`,description="Deployed chart"
// +kubebuilder:printcolumn:name="Version",type=string,priority=1,JSONPath=`.status.lastDeployedVersion`,description="Version of the deployed chart"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`,description="What goes on, or what to do"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name also names a Service: use at most 63 characters, lower-case letters, digits and '-', with a letter first and no '-' at the end"
// +kubebuilder:validation:XValidation:rule="self.metadata.name != 'default'",message="metadata.name also names a ServiceAccount, and every namespace has one called 'default': choose another name"
type WebApp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what to run. Only the image is required.
	Spec WebAppSpec `json:"spec"`
	// Status is written by Chartgate.
	// +optional
	Status WebAppStatus `json:"status,omitempty"`
}

// WebAppSpec says what to run, and how.
//
// +kubebuilder:validation:XValidation:rule="!has(self.storage) || !self.storage.enabled || self.storage.accessMode != 'ReadWriteOncePod' || self.replicas <= 1",message="a ReadWriteOncePod volume is for one pod: set replicas to 1 or 0, or storage.accessMode to ReadWriteOnce (all pods on one node) or ReadWriteMany"
// +kubebuilder:validation:XValidation:rule="!has(self.securityContext) || !has(self.securityContext.readOnlyRootFilesystem) || !self.securityContext.readOnlyRootFilesystem || !has(self.storage) || !self.storage.enabled || self.storage.mountPath != '/tmp'",message="with securityContext.readOnlyRootFilesystem, /tmp is a scratch directory of each pod: set storage.mountPath to another path"
type WebAppSpec struct {
	CommonSpec `json:",inline"`

	// Image to run: [registry/]repository[:tag][@digest], such as nginx:1.27.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self != ''",message="image must not be empty: write [registry/]repository[:tag][@digest], such as nginx:1.27"
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches(r'^(([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\\[[a-fA-F0-9:]+\\])(:[0-9]+)?/)?[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][a-zA-Z0-9_.-]*)?(@[a-z0-9]+:[a-fA-F0-9]{32,})?$')",message="not an image reference: write [registry/]repository[:tag][@digest] without spaces and with the repository in lower case, such as nginx:1.27"
	Image string `json:"image"`

	// Replicas is the number of pods, 0 to 100. A change of replicas alone scales at once: it makes no
	// Helm revision and waits for no gate. "kubectl scale" and a HorizontalPodAutoscaler set it too.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`

	// Port that the application listens on, 1 to 65535. The Service has the same.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// Resources of each pod. Requests are what it is guaranteed, limits what it may use at most.
	// +optional
	// +kubebuilder:default={}
	Resources WebAppResources `json:"resources,omitempty"`

	// Config becomes environment variables, in the order of their names. Values reach the application as
	// they are written: nothing is expanded in them. A change replaces the pods, step by step. Passwords
	// don't belong here.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[-._a-zA-Z][-._a-zA-Z0-9]{0,252}$') && name != '.' && !name.startsWith('..'))",message="config names become environment variables: use at most 253 letters, digits, '_', '-' and '.', with no digit first, such as LOG_LEVEL"
	Config map[string]WebAppConfigValue `json:"config,omitempty"`

	// Storage that outlives the pods: a PersistentVolumeClaim named as the WebApp and deleted with it.
	// +optional
	Storage *WebAppStorage `json:"storage,omitempty"`

	// Ingress that leads a host name to the application.
	// +optional
	Ingress *WebAppIngress `json:"ingress,omitempty"`

	// NodeSelector holds the labels of the nodes that the pods may run on.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="a nodeSelector key is a node's label: a name of at most 63 characters with an optional prefix, such as kubernetes.io/arch"
	NodeSelector map[string]WebAppLabelValue `json:"nodeSelector,omitempty"`

	// Tolerations of the pods for node taints.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.operator) || t.operator in ['', 'Equal', 'Exists', 'Lt', 'Gt'])",message="operator of a toleration is Equal or Exists"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.effect) || t.effect in ['', 'NoSchedule', 'PreferNoSchedule', 'NoExecute'])",message="effect of a toleration is NoSchedule, PreferNoSchedule or NoExecute"
	// +kubebuilder:validation:XValidation:rule="self.all(t, (has(t.key) && t.key != '') || (has(t.operator) && t.operator == 'Exists'))",message="a toleration without a key is for every taint: set operator to Exists, or name the key"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value) || t.value == '')",message="a toleration with operator Exists takes no value: remove the value, or set operator to Equal"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.tolerationSeconds) || (has(t.effect) && t.effect == 'NoExecute'))",message="tolerationSeconds is for effect NoExecute: set the effect, or remove tolerationSeconds"
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// Affinity of the pods to nodes and to other pods, as in a pod.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// ImagePullSecrets names Secrets of the same namespace to pull the image with.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []WebAppSecretReference `json:"imagePullSecrets,omitempty"`

	// Probe says how to find out whether a pod is ready and alive. Without it, whether the port accepts a
	// TCP connection.
	// +optional
	// +kubebuilder:default={}
	Probe WebAppProbe `json:"probe,omitempty"`

	// SecurityContext says what the application may do on its node.
	// +optional
	// +kubebuilder:default={}
	SecurityContext WebAppSecurityContext `json:"securityContext,omitempty"`

	// NetworkPolicy limits who may connect to the application.
	// +optional
	NetworkPolicy *WebAppNetworkPolicy `json:"networkPolicy,omitempty"`
}

// WebAppConfigValue is the value of an environment variable.
// +kubebuilder:validation:MaxLength=32768
type WebAppConfigValue string

// WebAppLabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
type WebAppLabelValue string

// WebAppSecretReference names a Secret of the WebApp's namespace.
type WebAppSecretReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="not a name of a Secret: use lower-case letters, digits, '-' and '.'"
	Name string `json:"name"`
}

// WebAppResources says what each pod is guaranteed and what it may use at most.
//
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || !has(self.requests.cpu) || !has(self.limits.cpu) || !isQuantity(string(self.requests.cpu)) || !isQuantity(string(self.limits.cpu)) || quantity(string(self.requests.cpu)).compareTo(quantity(string(self.limits.cpu))) <= 0",message="requests.cpu must not be above limits.cpu: lower the request or raise the limit (by default 50m and 500m)"
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || !has(self.requests.memory) || !has(self.limits.memory) || !isQuantity(string(self.requests.memory)) || !isQuantity(string(self.limits.memory)) || quantity(string(self.requests.memory)).compareTo(quantity(string(self.limits.memory))) <= 0",message="requests.memory must not be above limits.memory: lower the request or raise the limit (by default 64Mi and 128Mi)"
type WebAppResources struct {
	// Requests: what each pod is guaranteed. Nodes are chosen by it.
	// +optional
	// +kubebuilder:default={}
	Requests WebAppRequests `json:"requests,omitempty"`

	// Limits: what each pod may use at most. Above the memory limit it is stopped, above the CPU limit slowed down.
	// +optional
	// +kubebuilder:default={}
	Limits WebAppLimits `json:"limits,omitempty"`
}

// WebAppRequests is what each pod is guaranteed.
type WebAppRequests struct {
	// CPU in cores, such as 500m or 2.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:default="50m"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('0')) >= 0",message="not an amount of CPU: write cores or thousandths of one, such as 2, \"0.5\" or 500m"
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// Memory in bytes, such as 128Mi or 1Gi.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:default="64Mi"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="not an amount of memory: write bytes, 1Mi at least, with a unit such as Mi or Gi, as in 128Mi (m means thousandths)"
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// WebAppLimits is what each pod may use at most.
type WebAppLimits struct {
	// CPU in cores, such as 500m or 2.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:default="500m"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('0')) > 0",message="not an amount of CPU: write cores or thousandths of one, above 0, such as 2, \"0.5\" or 500m"
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// Memory in bytes, such as 128Mi or 1Gi.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:default="128Mi"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="not an amount of memory: write bytes, 1Mi at least, with a unit such as Mi or Gi, as in 128Mi (m means thousandths)"
	Memory *resource.Quantity `json:"memory,omitempty"`
}
