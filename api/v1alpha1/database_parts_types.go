// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// DatabaseResources says what each server is guaranteed and what it may use at most.
//
// +kubebuilder:validation:XValidation:rule="!has(self.requests.cpu) || !has(self.limits.cpu) || !isQuantity(string(self.requests.cpu)) || !isQuantity(string(self.limits.cpu)) || quantity(string(self.requests.cpu)).compareTo(quantity(string(self.limits.cpu))) <= 0",message="requests.cpu must not be above limits.cpu: lower the request or raise the limit (by default 100m and none)"
// +kubebuilder:validation:XValidation:rule="!has(self.requests.memory) || !has(self.limits.memory) || !isQuantity(string(self.requests.memory)) || !isQuantity(string(self.limits.memory)) || quantity(string(self.requests.memory)).compareTo(quantity(string(self.limits.memory))) <= 0",message="requests.memory must not be above limits.memory: lower the request or raise the limit (by default 256Mi and 512Mi)"
type DatabaseResources struct {
	// Requests: what each server is guaranteed. Nodes are chosen by it.
	// +optional
	// +kubebuilder:default={}
	Requests DatabaseRequests `json:"requests,omitempty"`

	// Limits: what each server may use at most. Above the memory limit it is stopped, above the CPU limit slowed down.
	// +optional
	// +kubebuilder:default={}
	Limits DatabaseLimits `json:"limits,omitempty"`
}

// DatabaseRequests is what each server is guaranteed.
type DatabaseRequests struct {
	// CPU in cores, such as 500m or 2.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:default="100m"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1m')) >= 0",message="not an amount of CPU: write cores or thousandths of one, 1m at least, such as 2, \"0.5\" or 500m"
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// Memory in bytes, such as 512Mi or 2Gi.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:default="256Mi"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('64Mi')) >= 0",message="not an amount of memory for PostgreSQL: write bytes, 64Mi at least, with a unit such as Mi or Gi, as in 512Mi (m means thousandths)"
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// DatabaseLimits is what each server may use at most.
type DatabaseLimits struct {
	// CPU in cores, such as 500m or 2. Default: no limit.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1m')) >= 0",message="not an amount of CPU: write cores or thousandths of one, 1m at least, such as 2, \"0.5\" or 500m"
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// Memory in bytes, such as 512Mi or 2Gi.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:default="512Mi"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('64Mi')) >= 0",message="not an amount of memory for PostgreSQL: write bytes, 64Mi at least, with a unit such as Mi or Gi, as in 512Mi (m means thousandths)"
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// DatabaseCredentials names an existing Secret that holds the superuser's name and password. It is read, never changed.
//
// +kubebuilder:validation:XValidation:rule="(has(self.secretName) && size(self.secretName) > 0) || (self.usernameKey == 'username' && self.passwordKey == 'password')",message="usernameKey and passwordKey are keys of an existing Secret: set credentials.secretName to its name, or leave the keys out"
type DatabaseCredentials struct {
	// SecretName of an existing Secret of the same namespace. It can't be changed. Default: one is made.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="not a name of a Secret: use lower-case letters, digits, '-' and '.'"
	SecretName string `json:"secretName,omitempty"`

	// UsernameKey of the Secret: the superuser's name.
	// +optional
	// +kubebuilder:default=username
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="not a key of a Secret: use letters, digits, '-', '_' and '.'"
	UsernameKey string `json:"usernameKey,omitempty"`

	// PasswordKey of the Secret: the superuser's password.
	// +optional
	// +kubebuilder:default=password
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="not a key of a Secret: use letters, digits, '-', '_' and '.'"
	PasswordKey string `json:"passwordKey,omitempty"`
}

// DatabaseBackup makes dumps on a schedule, on a volume of their own.
type DatabaseBackup struct {
	// Enabled turns backups on. Turned off, the dumps that there are stay.
	// +optional
	// +kubebuilder:default=false
	Enabled bool `json:"enabled"`

	// Schedule in cron format, in UTC: minute, hour, day, month, weekday.
	// +optional
	// +kubebuilder:default="0 2 * * *"
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('(?i)^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]*)?(,([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]*)?)* +([*?]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]*)?(,([*?]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]*)?)* +([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]*)?(,([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]*)?)* +([*?]|(0?[1-9]|1[0-2]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(-(0?[1-9]|1[0-2]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))?)(/[1-9][0-9]*)?(,([*?]|(0?[1-9]|1[0-2]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(-(0?[1-9]|1[0-2]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))?)(/[1-9][0-9]*)?)* +([*?]|(0?[0-6]|sun|mon|tue|wed|thu|fri|sat)(-(0?[0-6]|sun|mon|tue|wed|thu|fri|sat))?)(/[1-9][0-9]*)?(,([*?]|(0?[0-6]|sun|mon|tue|wed|thu|fri|sat)(-(0?[0-6]|sun|mon|tue|wed|thu|fri|sat))?)(/[1-9][0-9]*)?)*)$')",message="not a cron schedule: write the five fields minute, hour, day, month and weekday (0 to 6), such as \"0 2 * * *\" for 02:00 UTC each day, or @daily"
	Schedule string `json:"schedule,omitempty"`

	// StorageSize of the volume that holds the dumps, such as 10Gi. It can grow where the storage class allows it, never shrink.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="not a size: write bytes, 1Mi at least, with a unit such as Mi or Gi, as in 10Gi"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || !isQuantity(string(oldSelf)) || quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="storage can't shrink: keep backup.storageSize or make it larger"
	StorageSize *resource.Quantity `json:"storageSize,omitempty"`

	// Retention is how many dumps are kept, 1 to 1000: the oldest go.
	// +optional
	// +kubebuilder:default=7
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Retention *int32 `json:"retention,omitempty"`
}

// DatabaseMonitoring lets Prometheus see into the database.
type DatabaseMonitoring struct {
	// Enabled adds a metrics exporter to each server, and a ServiceMonitor where the cluster has that kind.
	// +optional
	// +kubebuilder:default=false
	Enabled bool `json:"enabled"`

	// Image of the metrics exporter. Default: quay.io/prometheuscommunity/postgres-exporter in a fixed version.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches(r'^[a-zA-Z0-9][a-zA-Z0-9._:/@-]*[a-zA-Z0-9]$')",message="not an image reference: write [registry/]repository[:tag][@digest] without spaces"
	Image string `json:"image,omitempty"`
}
