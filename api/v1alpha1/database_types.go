// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindDatabase is the kind of PostgreSQL databases.
const KindDatabase = "Database"

// LabelDatabase marks what holds a Database's data with the Database's name: its volume claims and the
// Secret made for it. They outlive the release; deletionPolicy Delete removes them.
const LabelDatabase = "chartgate.dev/database"

// Database runs PostgreSQL: one primary, and as many streaming standbys as the replicas leave over. The
// Service named as the Database leads to the primary, and the one with the suffix -ro to the standbys.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=databases,singular=database,scope=Namespaced,shortName=db,categories=chartgate
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Where the database is in its life"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all of it is ready"
// +kubebuilder:printcolumn:name="Gates",type=string,JSONPath=`.status.gatesPassed`,description="Gates that passed, of all"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`,description="Servers asked for: the primary and its standbys"
// +kubebuilder:printcolumn:name="Servers",type=integer,JSONPath=`.status.readyReplicas`,description="Servers that are ready"
// +kubebuilder:printcolumn:name="PostgreSQL",type=string,JSONPath=`.status.currentVersion`,description="Version of PostgreSQL that runs"
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.revision`,description="Deployed Helm revision"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Last Backup",type=date,priority=1,JSONPath=`.status.lastBackup`,description="When the last backup succeeded"
// +kubebuilder:printcolumn:name="Chart",type=string,priority=1,JSONPath=`.status.chart`,description="Deployed chart"
// +kubebuilder:printcolumn:name="Version",type=string,priority=1,JSONPath=`.status.lastDeployedVersion`,description="Version of the deployed chart"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`,description="What goes on, or what to do"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 43 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name also names Services, pods and a CronJob: use at most 43 characters, lower-case letters, digits and '-', with a letter first and no '-' at the end"
type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what to run. Nothing in it is required.
	// +optional
	// +kubebuilder:default={}
	Spec DatabaseSpec `json:"spec,omitempty"`
	// Status is written by Chartgate.
	// +optional
	Status DatabaseStatus `json:"status,omitempty"`
}

// DatabaseDeletionPolicy says what becomes of the data when its Database is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type DatabaseDeletionPolicy string

// The deletion policies of a Database.
const (
	// DatabaseRetain keeps volume claims, backups and credentials: a Database of the same name finds them again. The default.
	DatabaseRetain DatabaseDeletionPolicy = "Retain"
	// DatabaseDelete deletes them with the Database.
	DatabaseDelete DatabaseDeletionPolicy = "Delete"
)

// DatabaseSpec says what to run, and how.
//
// +kubebuilder:validation:XValidation:rule="(has(self.storageClass) ? self.storageClass : \"\") == (has(oldSelf.storageClass) ? oldSelf.storageClass : \"\")",fieldPath=".storageClass",message="storageClass can't be changed: the volumes are made already. Set it back, or make another Database with the class and restore a backup into it"
// +kubebuilder:validation:XValidation:rule="(has(self.credentials) && has(self.credentials.secretName) ? self.credentials.secretName : \"\") == (has(oldSelf.credentials) && has(oldSelf.credentials.secretName) ? oldSelf.credentials.secretName : \"\")",fieldPath=".credentials",message="credentials.secretName can't be changed: set it back. To change the password, change it in the Secret and restart the database; or make another Database and restore a backup into it"
type DatabaseSpec struct {
	CommonSpec `json:",inline"`

	// Version of PostgreSQL: a major version such as "17", or "17.5", which is kept exactly. Another major
	// version can't read the data, so it is refused: dump the data and restore it into another Database.
	// +optional
	// +kubebuilder:default="17"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]([.](0|[1-9][0-9]?))?$')",message="not a version of PostgreSQL: write its major version, or major and minor, in quotes, such as \"17\" or \"17.5\""
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[1-9][0-9]([.][0-9]+)?$') || int(self.split('.')[0]) >= 13",message="PostgreSQL before 13 is not supported: choose a newer version"
	// +kubebuilder:validation:XValidation:rule="self.split('.')[0] == oldSelf.split('.')[0]",message="another major version of PostgreSQL can't read the data: set the version back. To move, make another Database of the new version and restore a dump into it (docs/database.md)"
	Version string `json:"version,omitempty"`

	// Image to run instead of the official one of the version (docker.io/library/postgres): one made from
	// it, of the same major version as version says. Images based on Alpine don't fit.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches(r'^(([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\\[[a-fA-F0-9:]+\\])(:[0-9]+)?/)?[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][a-zA-Z0-9_.-]*)?(@[a-z0-9]+:[a-fA-F0-9]{32,})?$')",message="not an image reference: write [registry/]repository[:tag][@digest] without spaces and with the repository in lower case, such as docker.io/library/postgres:17.5"
	Image string `json:"image,omitempty"`

	// ImagePullSecrets names Secrets of the same namespace to pull images with.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []DatabaseSecretReference `json:"imagePullSecrets,omitempty"`

	// StorageSize of each server's volume, such as 10Gi. It can grow where the storage class allows it, never shrink.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('256Mi')) >= 0",message="not a size for a database: write bytes, 256Mi at least, with a unit such as Mi or Gi, as in 10Gi"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || !isQuantity(string(oldSelf)) || quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="storage can't shrink: keep storageSize or make it larger. To move to smaller volumes, make another Database and restore a backup into it"
	StorageSize *resource.Quantity `json:"storageSize,omitempty"`

	// StorageClass of all volumes. Default: the cluster's default class. It can't be changed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="not a name of a StorageClass: use lower-case letters, digits, '-' and '.', or leave it empty for the cluster's default"
	StorageClass string `json:"storageClass,omitempty"`

	// Replicas is the number of servers, 1 to 10: one primary, and streaming standbys for the rest. Standbys
	// are copies of the primary and serve reads.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Replicas *int32 `json:"replicas,omitempty"`

	// Resources of each server. Requests are what it is guaranteed, limits what it may use at most.
	// +optional
	// +kubebuilder:default={requests:{},limits:{}}
	Resources DatabaseResources `json:"resources,omitempty"`

	// NodeSelector holds the labels of the nodes that the servers may run on.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="a nodeSelector key is a node's label: a name of at most 63 characters with an optional prefix, such as kubernetes.io/arch"
	NodeSelector map[string]DatabaseLabelValue `json:"nodeSelector,omitempty"`

	// Tolerations of the servers for node taints.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.operator) || t.operator in ['', 'Equal', 'Exists', 'Lt', 'Gt'])",message="operator of a toleration is Equal or Exists"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.effect) || t.effect in ['', 'NoSchedule', 'PreferNoSchedule', 'NoExecute'])",message="effect of a toleration is NoSchedule, PreferNoSchedule or NoExecute"
	// +kubebuilder:validation:XValidation:rule="self.all(t, (has(t.key) && t.key != '') || (has(t.operator) && t.operator == 'Exists'))",message="a toleration without a key is for every taint: set operator to Exists, or name the key"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value) || t.value == '')",message="a toleration with operator Exists takes no value: remove the value, or set operator to Equal"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.tolerationSeconds) || (has(t.effect) && t.effect == 'NoExecute'))",message="tolerationSeconds is for effect NoExecute: set the effect, or remove tolerationSeconds"
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// Affinity of the servers to nodes and to other pods, as in a pod. In any case they are spread over
	// nodes as far as there are nodes for it.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// Database is the name of the database that is made. It can't be changed.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z_][-a-zA-Z0-9_]*$')",message="not a name of a database: use letters, digits, '_' and '-', with a letter or '_' first"
	// +kubebuilder:validation:XValidation:rule="!(self in ['template0', 'template1'])",message="PostgreSQL keeps template0 and template1 for itself: choose another name"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="database can't be changed: set it back. To have another one as well, use SQL: CREATE DATABASE"
	Database string `json:"database,omitempty"`

	// Credentials of the superuser. Default: user admin with a random password, in a Secret that is named as
	// the Database with the suffix -credentials.
	// +optional
	Credentials *DatabaseCredentials `json:"credentials,omitempty"`

	// Backup makes dumps on a schedule, on a volume of their own.
	// +optional
	Backup *DatabaseBackup `json:"backup,omitempty"`

	// Monitoring by Prometheus.
	// +optional
	Monitoring *DatabaseMonitoring `json:"monitoring,omitempty"`

	// DeletionPolicy says what becomes of the data when this Database is deleted. Retain keeps volume claims,
	// backups and the generated credentials, and a Database of the same name finds them again. Delete deletes them.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DatabaseDeletionPolicy `json:"deletionPolicy,omitempty"`
}

// DatabaseLabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
type DatabaseLabelValue string

// DatabaseSecretReference names a Secret of the Database's namespace.
type DatabaseSecretReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="not a name of a Secret: use lower-case letters, digits, '-' and '.'"
	Name string `json:"name"`
}

// DatabaseStatus is the state of a Database.
type DatabaseStatus struct {
	CommonStatus `json:",inline"`

	// CurrentReplicas is the number of servers there are, ready or not.
	// +optional
	CurrentReplicas int32 `json:"currentReplicas,omitempty"`

	// ReadyReplicas is the number of servers that accept connections.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// CurrentVersion is the version of PostgreSQL that all servers run.
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`

	// LastBackup is when the last backup succeeded.
	// +optional
	LastBackup *metav1.Time `json:"lastBackup,omitempty"`
}

// DatabaseList is a list of Databases.
//
// +kubebuilder:object:root=true
type DatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Database `json:"items"`
}
