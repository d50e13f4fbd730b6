// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"oras.land/oras-go/v2/registry"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

const (
	// chartField of spec names the chart.
	chartField = "chart"
	// defaultInterval at which a range is looked up again, and the least there may be.
	defaultInterval = 10 * time.Minute
	leastInterval   = 10 * time.Second
	// defaultKeyring is the key of a Secret that holds public keys.
	defaultKeyring = "keyring.gpg"
)

// query is what a resource asks for, Secrets included.
type query struct {
	namespace string // of the resource

	url      *url.URL // of the repository; for a registry, of the chart
	oci      bool
	name     string // of the chart in a chart repository
	version  string // exact, or a range
	exact    bool
	interval time.Duration
	verify   bool

	credentials credentials
	keyring     []byte

	// listKey tells lists of versions apart, and key what is asked for.
	listKey, key string
}

// query reads what the resource asks for.
func (r *Repository) query(ctx context.Context, obj *unstructured.Unstructured, secrets Secrets) (*query, error) {
	spec, err := chartOf(obj)
	if err != nil {
		return nil, err
	}
	q, err := parseQuery(spec)
	if err != nil {
		return nil, stuck(v1alpha1.ReasonInvalidChartReference, "spec.%s: %w", chartField, err)
	}
	q.namespace = obj.GetNamespace()
	if err := r.policy.check(q.url); err != nil {
		return nil, err
	}
	if spec.SecretRef != nil {
		data, err := readSecret(ctx, secrets, obj, "spec.chart.secretRef", spec.SecretRef.Name)
		if err != nil {
			return nil, err
		}
		q.credentials = credentials{secret: spec.SecretRef.Name, data: data}
	}
	if spec.Verify != nil {
		ref := spec.Verify.SecretRef
		data, err := readSecret(ctx, secrets, obj, "spec.chart.verify.secretRef", ref.Name)
		if err != nil {
			return nil, err
		}
		key := cmp.Or(ref.Key, defaultKeyring)
		if q.keyring = data[key]; len(q.keyring) == 0 {
			return nil, absent(v1alpha1.ReasonRepositorySecretInvalid, "spec.chart.verify.secretRef: Secret %s has no key %s; it has to hold the public keys that charts may be signed with, as 'gpg --export' writes them", ref.Name, key)
		}
		q.verify = true
	}
	who := q.credentials.fingerprint(r.hashKey)
	q.listKey = fingerprint(nil, []byte("list"), []byte(q.url.String()), []byte(who))
	q.key = fingerprint(r.hashKey, []byte("chart"), []byte(q.listKey), []byte(q.name), []byte(q.version), q.keyring)
	return q, nil
}

// CheckInterval returns what the resource says of the checkInterval of its
// gates, in seconds; 0 where it says nothing.
func CheckInterval(obj *unstructured.Unstructured) int32 {
	seconds, ok, err := unstructured.NestedInt64(obj.Object, "spec", chartField, "checkInterval")
	if !ok || err != nil || seconds < 1 || seconds > math.MaxInt32 {
		return 0
	}
	return int32(seconds)
}

func chartOf(obj *unstructured.Unstructured) (*v1alpha1.HelmAppChart, error) {
	raw, ok, err := unstructured.NestedMap(obj.Object, "spec", chartField)
	if err != nil || !ok {
		return nil, stuck(v1alpha1.ReasonInvalidChartReference, "spec.%s is missing; name a chart: repository, name and version", chartField)
	}
	spec := &v1alpha1.HelmAppChart{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, spec); err != nil {
		return nil, stuck(v1alpha1.ReasonInvalidChartReference, "spec.%s: %s", chartField, plain(err.Error()))
	}
	return spec, nil
}

func parseQuery(spec *v1alpha1.HelmAppChart) (*query, error) {
	q := &query{version: strings.TrimSpace(spec.Version), name: spec.Name, interval: defaultInterval}
	u, err := parseRepository(spec.Repository)
	if err != nil {
		return nil, err
	}
	if q.url, q.oci = u, u.Scheme == "oci"; q.oci {
		u.Path = path.Join(u.Path, spec.Name)
		ref, err := registry.ParseReference(u.Host + u.Path)
		if err != nil {
			return nil, fmt.Errorf("repository %s is no chart in a registry: %s", place(u), plain(err.Error()))
		}
		if ref.Reference != "" {
			return nil, fmt.Errorf("repository %s is no chart in a registry: it has a tag or digest in it; the version belongs into version", place(u))
		}
		q.name = path.Base(u.Path)
	} else if spec.Name == "" {
		return nil, fmt.Errorf("name is missing: a chart repository holds many charts")
	}
	_, err = semver.StrictNewVersion(strings.TrimPrefix(q.version, "v"))
	if q.exact = err == nil; !q.exact {
		if _, err := semver.NewConstraint(q.version); err != nil || q.version == "" {
			return nil, fmt.Errorf("version %q is neither a version, such as 1.4.2, nor a range, such as ^1.4 or \">=1.4 <3\"", plain(q.version))
		}
	}
	if spec.UpdateInterval != nil && spec.UpdateInterval.Duration > 0 {
		q.interval = max(spec.UpdateInterval.Duration, leastInterval)
	}
	return q, nil
}

func parseRepository(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("repository is not a URL") // the parser's words may show a password
	case u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "oci":
		return nil, fmt.Errorf("repository has to start with https:// or oci://")
	case u.User != nil:
		return nil, fmt.Errorf("repository must not hold a user or password: put them into a Secret and name it in secretRef")
	case u.Hostname() == "" || u.Opaque != "":
		return nil, fmt.Errorf("repository names no host")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery || u.RawPath != "":
		return nil, fmt.Errorf("repository has to be a host and a path, with nothing after and no escapes in it")
	}
	u.Host = strings.ToLower(u.Host)
	if u.Port() == defaultPort(u.Scheme) && u.Scheme != "oci" {
		u.Host = strings.TrimSuffix(u.Host, ":"+u.Port())
	}
	if u.Path = strings.TrimSuffix(u.Path, "/"); u.Path != "" && path.Clean(u.Path) != u.Path {
		return nil, fmt.Errorf("the path of repository is not a plain one")
	}
	return u, nil
}
