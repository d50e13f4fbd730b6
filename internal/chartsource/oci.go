// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"context"
	"net/http"
	"net/url"

	"helm.sh/helm/v3/pkg/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// registryClient returns Helm's client for registries, with the session for all it sends.
func (s *session) registryClient() (*registry.Client, error) {
	home := registryHost(s.origin.Host)
	authorizer := auth.Client{
		Client: s.client,
		Header: http.Header{"User-Agent": {userAgent}},
		Cache:  auth.NewCache(),
		Credential: func(_ context.Context, host string) (auth.Credential, error) {
			if host != home {
				return auth.EmptyCredential, nil
			}
			return auth.Credential{Username: s.access.username, Password: s.access.password, RefreshToken: s.access.token}, nil
		},
	}
	options := []registry.ClientOption{
		registry.ClientOptHTTPClient(s.client),
		registry.ClientOptAuthorizer(authorizer),
		// Nothing on this machine has a say in who the operator is to a registry.
		registry.ClientOptCredentialsFile("/nonexistent/registry.json"),
	}
	if s.origin.Scheme == "http" {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	return registry.NewClient(options...)
}

// chartReference is the name of a chart in a registry, without scheme.
func chartReference(u *url.URL) string { return u.Host + u.Path }

// listTags gets the versions of a chart in a registry.
func (r *Repository) listTags(s *session, q *query) (*listing, error) {
	what := "registry chart " + place(q.url)
	client, err := s.registryClient()
	if err != nil {
		return nil, s.fault(what, err)
	}
	tags, err := client.Tags(chartReference(q.url))
	if err != nil {
		return nil, s.fault(what, err)
	}
	return &listing{listed: listed{AsOf: r.clock.Now()}, tags: tags}, nil
}

// pull gets a chart from a registry.
func (s *session) pull(u *url.URL, version string, signature bool) (*archive, error) {
	what := "registry chart " + place(u) + ":" + version
	client, err := s.registryClient()
	if err != nil {
		return nil, s.fault(what, err)
	}
	result, err := client.Pull(chartReference(u)+":"+version,
		registry.PullOptWithProv(signature), registry.PullOptIgnoreMissingProv(true))
	if err != nil {
		e := s.fault(what, err)
		if e.Reason == v1alpha1.ReasonChartNotFound {
			e.Reason = v1alpha1.ReasonVersionNotFound
		}
		return nil, e
	}
	out := &archive{data: result.Chart.Data, manifest: result.Manifest.Digest}
	if signature && result.Prov != nil {
		out.signature = result.Prov.Data
	}
	return out, nil
}
