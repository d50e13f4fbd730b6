// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"regexp"
	"strings"

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// maxName leaves room for what is added to it: a pod of <name>-standby has a
// label with the name of its StatefulSet and a hash, of 63 characters at most.
const maxName = 43

var (
	versionPattern  = regexp.MustCompile(`^[1-9][0-9]([.](0|[1-9][0-9]?))?$`)
	databasePattern = regexp.MustCompile(`^[a-zA-Z_][-a-zA-Z0-9_]{0,62}$`)
	schedules       = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
)

// validate tells all of what the chart can't be released with. The CRD's rules
// refuse the same at admission, but for what only a parser can tell; this is for
// objects that came past them, such as those stored before a rule was made.
func validate(name string, spec *v1alpha1.DatabaseSpec) field.ErrorList {
	root := field.NewPath("spec")
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1035Label(name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), name, "it also names Services: "+msg))
	}
	if len(name) > maxName {
		errs = append(errs, field.TooLong(field.NewPath("metadata", "name"), name, maxName))
	}
	if !versionPattern.MatchString(spec.Version) || spec.Version < "13" {
		errs = append(errs, field.Invalid(root.Child("version"), spec.Version, "has to be a version of PostgreSQL from 13 on, such as 17 or 17.5"))
	}
	if strings.ContainsAny(spec.Image, " \t\r\n") {
		errs = append(errs, field.Invalid(root.Child("image"), spec.Image, "an image reference has no spaces"))
	}
	if !databasePattern.MatchString(spec.Database) || spec.Database == "template0" || spec.Database == "template1" {
		errs = append(errs, field.Invalid(root.Child("database"), spec.Database, "has to be a name of letters, digits, '_' and '-', with a letter or '_' first, and not template0 or template1"))
	}
	errs = append(errs, within(root.Child("replicas"), *spec.Replicas, 1, 10)...)
	errs = append(errs, least(root.Child("storageSize"), spec.StorageSize, "256Mi")...)
	errs = append(errs, subdomain(root.Child("storageClass"), spec.StorageClass)...)
	for i, ref := range spec.ImagePullSecrets {
		if at := root.Child("imagePullSecrets").Index(i).Child("name"); ref.Name == "" {
			errs = append(errs, field.Required(at, "name a Secret"))
		} else {
			errs = append(errs, subdomain(at, ref.Name)...)
		}
	}
	policies := []v1alpha1.DatabaseDeletionPolicy{v1alpha1.DatabaseRetain, v1alpha1.DatabaseDelete}
	if spec.DeletionPolicy != policies[0] && spec.DeletionPolicy != policies[1] {
		errs = append(errs, field.NotSupported(root.Child("deletionPolicy"), spec.DeletionPolicy, policies))
	}
	errs = append(errs, validateResources(root.Child("resources"), spec.Resources)...)
	errs = append(errs, validateCredentials(root.Child("credentials"), spec.Credentials)...)
	errs = append(errs, validateBackup(root.Child("backup"), spec.Backup)...)
	if m := spec.Monitoring; m != nil && strings.ContainsAny(m.Image, " \t\r\n") {
		errs = append(errs, field.Invalid(root.Child("monitoring", "image"), m.Image, "an image reference has no spaces"))
	}
	return errs
}

func validateResources(at *field.Path, r v1alpha1.DatabaseResources) field.ErrorList {
	errs := least(at.Child("requests", "cpu"), r.Requests.CPU, "1m")
	errs = append(errs, least(at.Child("limits", "cpu"), r.Limits.CPU, "1m")...)
	errs = append(errs, least(at.Child("requests", "memory"), r.Requests.Memory, "64Mi")...)
	errs = append(errs, least(at.Child("limits", "memory"), r.Limits.Memory, "64Mi")...)
	if r.Limits.CPU != nil && r.Requests.CPU.Cmp(*r.Limits.CPU) > 0 {
		errs = append(errs, field.Invalid(at.Child("requests", "cpu"), r.Requests.CPU.String(), "must not be above limits.cpu, "+r.Limits.CPU.String()))
	}
	if r.Requests.Memory.Cmp(*r.Limits.Memory) > 0 {
		errs = append(errs, field.Invalid(at.Child("requests", "memory"), r.Requests.Memory.String(), "must not be above limits.memory, "+r.Limits.Memory.String()))
	}
	return errs
}

func validateCredentials(at *field.Path, c *v1alpha1.DatabaseCredentials) field.ErrorList {
	if c == nil || c.SecretName == "" {
		return nil
	}
	errs := subdomain(at.Child("secretName"), c.SecretName)
	for _, msg := range validation.IsConfigMapKey(c.UsernameKey) {
		errs = append(errs, field.Invalid(at.Child("usernameKey"), c.UsernameKey, msg))
	}
	for _, msg := range validation.IsConfigMapKey(c.PasswordKey) {
		errs = append(errs, field.Invalid(at.Child("passwordKey"), c.PasswordKey, msg))
	}
	return errs
}

func validateBackup(at *field.Path, b *v1alpha1.DatabaseBackup) field.ErrorList {
	if b == nil || !b.Enabled {
		return nil
	}
	errs := least(at.Child("storageSize"), b.StorageSize, "1Mi")
	errs = append(errs, within(at.Child("retention"), *b.Retention, 1, 1000)...)
	if strings.Contains(b.Schedule, "TZ=") { // the parser takes them, and panics at some
		return append(errs, field.Invalid(at.Child("schedule"), b.Schedule, "is in UTC and takes no time zone"))
	}
	if _, err := schedules.Parse(b.Schedule); err != nil {
		errs = append(errs, field.Invalid(at.Child("schedule"), b.Schedule, "is not a cron schedule of minute, hour, day, month and weekday: "+err.Error()))
	}
	return errs
}

func within(at *field.Path, value, low, high int32) field.ErrorList {
	if value < low || value > high {
		return field.ErrorList{field.Invalid(at, value, validation.InclusiveRangeError(int(low), int(high)))}
	}
	return nil
}

// least checks an amount that may be left out.
func least(at *field.Path, q *resource.Quantity, low string) field.ErrorList {
	if q != nil && q.Cmp(resource.MustParse(low)) < 0 {
		return field.ErrorList{field.Invalid(at, q.String(), "has to be "+low+" at least")}
	}
	return nil
}

// subdomain checks a name of an object, or none.
func subdomain(at *field.Path, name string) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		return nil
	}
	for _, msg := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}
