// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"math"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// leastBytes is the least memory or storage that is taken: less is a slip of
// the unit, such as 128m for 128Mi.
var leastBytes = resource.MustParse("1Mi")

// validate tells all of what the chart can't be released with. The CRD's rules
// refuse the same and more at admission; this is for objects that came past
// them, such as those stored before a rule was made.
func validate(name string, spec *v1alpha1.WebAppSpec) field.ErrorList {
	root := field.NewPath(specField)
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1035Label(name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), name, "it also names a Service: "+msg))
	}
	if name == "default" {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), name, "it also names a ServiceAccount, and every namespace has one called default"))
	}
	if strings.TrimSpace(spec.Image) == "" {
		errs = append(errs, field.Required(root.Child("image"), "write [registry/]repository[:tag][@digest], such as nginx:1.27"))
	} else if strings.ContainsAny(spec.Image, " \t\r\n") {
		errs = append(errs, field.Invalid(root.Child("image"), spec.Image, "an image reference has no spaces"))
	}
	errs = append(errs, inRange(root.Child("replicas"), *spec.Replicas, 0, 100)...)
	errs = append(errs, inRange(root.Child("port"), *spec.Port, 1, 65535)...)
	errs = append(errs, validateResources(root.Child("resources"), spec.Resources)...)
	for _, name := range sortedKeys(spec.Config) {
		for _, msg := range validation.IsEnvVarName(name) {
			errs = append(errs, field.Invalid(root.Child("config").Key(name), name, msg))
		}
	}
	errs = append(errs, validateStorage(root.Child("storage"), spec)...)
	errs = append(errs, validateIngress(root.Child("ingress"), spec.Ingress)...)
	errs = append(errs, validateProbe(root.Child("probe"), spec.Probe)...)
	errs = append(errs, validateSecurity(root.Child("securityContext"), spec.SecurityContext)...)
	for i, ref := range spec.ImagePullSecrets {
		if ref.Name == "" {
			errs = append(errs, field.Required(root.Child("imagePullSecrets").Index(i).Child("name"), "name a Secret"))
		}
	}
	return errs
}

func validateResources(at *field.Path, r v1alpha1.WebAppResources) field.ErrorList {
	var errs field.ErrorList
	if r.Requests.CPU.Sign() < 0 {
		errs = append(errs, field.Invalid(at.Child("requests", "cpu"), r.Requests.CPU.String(), "must not be below 0"))
	}
	if r.Limits.CPU.Sign() <= 0 {
		errs = append(errs, field.Invalid(at.Child("limits", "cpu"), r.Limits.CPU.String(), "has to be above 0"))
	}
	errs = append(errs, enoughBytes(at.Child("requests", "memory"), r.Requests.Memory)...)
	errs = append(errs, enoughBytes(at.Child("limits", "memory"), r.Limits.Memory)...)
	if r.Requests.CPU.Cmp(*r.Limits.CPU) > 0 {
		errs = append(errs, field.Invalid(at.Child("requests", "cpu"), r.Requests.CPU.String(), "must not be above limits.cpu, "+r.Limits.CPU.String()))
	}
	if r.Requests.Memory.Cmp(*r.Limits.Memory) > 0 {
		errs = append(errs, field.Invalid(at.Child("requests", "memory"), r.Requests.Memory.String(), "must not be above limits.memory, "+r.Limits.Memory.String()))
	}
	return errs
}

func validateStorage(at *field.Path, spec *v1alpha1.WebAppSpec) field.ErrorList {
	s := spec.Storage
	if s == nil || !s.Enabled {
		return nil
	}
	errs := enoughBytes(at.Child("size"), s.Size)
	if !strings.HasPrefix(s.MountPath, "/") || path.Clean(s.MountPath) == "/" || strings.Contains(s.MountPath, ":") ||
		slices.Contains(strings.Split(s.MountPath, "/"), "..") {
		errs = append(errs, field.Invalid(at.Child("mountPath"), s.MountPath, "has to be an absolute path below /, such as /data, without ':' and '..'"))
	}
	if spec.SecurityContext.ReadOnlyRootFilesystem && path.Clean(s.MountPath) == "/tmp" {
		errs = append(errs, field.Invalid(at.Child("mountPath"), s.MountPath, "with securityContext.readOnlyRootFilesystem, /tmp is a scratch directory of each pod: choose another path"))
	}
	modes := []v1alpha1.WebAppAccessMode{v1alpha1.AccessReadWriteOnce, v1alpha1.AccessReadWriteMany, v1alpha1.AccessReadWriteOncePod}
	if !slices.Contains(modes, s.AccessMode) {
		errs = append(errs, field.NotSupported(at.Child("accessMode"), s.AccessMode, modes))
	}
	return errs
}

func validateIngress(at *field.Path, in *v1alpha1.WebAppIngress) field.ErrorList {
	if in == nil || !in.Enabled {
		return nil
	}
	var errs field.ErrorList
	check := validation.IsDNS1123Subdomain
	if strings.HasPrefix(in.Host, "*.") {
		check = validation.IsWildcardDNS1123Subdomain
	}
	if in.Host == "" {
		errs = append(errs, field.Required(at.Child("host"), "an enabled ingress needs a host, such as shop.example.com"))
	} else {
		for _, msg := range check(in.Host) {
			errs = append(errs, field.Invalid(at.Child("host"), in.Host, msg))
		}
	}
	if in.TLS != nil && in.TLS.Enabled && in.TLS.SecretName == "" {
		errs = append(errs, field.Required(at.Child("tls", "secretName"), "TLS needs the Secret that holds the certificate"))
	}
	return errs
}

func validateProbe(at *field.Path, p v1alpha1.WebAppProbe) field.ErrorList {
	var errs field.ErrorList
	if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
		errs = append(errs, field.Invalid(at.Child("path"), p.Path, "begins with /, such as /healthz"))
	}
	if p.Port != nil {
		errs = append(errs, inRange(at.Child("port"), *p.Port, 1, 65535)...)
	}
	errs = append(errs, inRange(at.Child("initialDelaySeconds"), *p.InitialDelaySeconds, 0, 3600)...)
	errs = append(errs, inRange(at.Child("periodSeconds"), *p.PeriodSeconds, 1, 3600)...)
	errs = append(errs, inRange(at.Child("timeoutSeconds"), *p.TimeoutSeconds, 1, 3600)...)
	errs = append(errs, inRange(at.Child("failureThreshold"), *p.FailureThreshold, 1, 100)...)
	return append(errs, inRange(at.Child("startupSeconds"), *p.StartupSeconds, 1, 3600)...)
}

func validateSecurity(at *field.Path, c v1alpha1.WebAppSecurityContext) field.ErrorList {
	var errs field.ErrorList
	profiles := []v1alpha1.WebAppSecurityProfile{v1alpha1.ProfileBaseline, v1alpha1.ProfileRestricted}
	if !slices.Contains(profiles, c.Profile) {
		errs = append(errs, field.NotSupported(at.Child("profile"), c.Profile, profiles))
	}
	if c.Profile == v1alpha1.ProfileRestricted && c.RunAsUser != nil && *c.RunAsUser == 0 {
		errs = append(errs, field.Invalid(at.Child("runAsUser"), *c.RunAsUser, "profile Restricted forbids root: choose another user, or profile Baseline"))
	}
	for _, id := range ids(c) {
		if id.value != nil && (*id.value < 0 || *id.value > math.MaxInt32) {
			errs = append(errs, field.Invalid(at.Child(id.field), *id.value, validation.InclusiveRangeError(0, math.MaxInt32)))
		}
	}
	return errs
}

func inRange(at *field.Path, value, least, most int32) field.ErrorList {
	if value < least || value > most {
		return field.ErrorList{field.Invalid(at, value, validation.InclusiveRangeError(int(least), int(most)))}
	}
	return nil
}

func enoughBytes(at *field.Path, q *resource.Quantity) field.ErrorList {
	if q.Cmp(leastBytes) < 0 {
		return field.ErrorList{field.Invalid(at, q.String(), "has to be 1Mi at least: write bytes with a unit such as Mi or Gi")}
	}
	return nil
}
