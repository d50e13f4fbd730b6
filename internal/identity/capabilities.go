// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// served is what the API server was last found to be and serve.
type served struct {
	config    *rest.Config
	http      *http.Client
	discovery discovery.DiscoveryInterface

	mu    sync.Mutex
	known *chartutil.Capabilities
	etag  string // of the list of APIs
	asked time.Time
}

// Capabilities returns what the API server is and serves, as charts see it in
// .Capabilities. The answer is cached for as long as the API server says, on one
// conditional request, that its list of APIs is the same. Calls that wait for
// each other share a request.
func (c *Clients) Capabilities(ctx context.Context) (*chartutil.Capabilities, error) {
	return c.served.capabilities(ctx)
}

func (s *served) capabilities(ctx context.Context) (*chartutil.Capabilities, error) {
	arrived := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known != nil && s.asked.After(arrived) {
		return s.known.Copy(), nil // asked for by somebody who came after this call
	}
	asked := time.Now()
	etag, same, err := s.listOfAPIs(ctx, s.etag)
	if err != nil {
		return nil, fmt.Errorf("API versions that the server serves: %w", err)
	}
	if same && s.known != nil {
		s.asked = asked
		return s.known.Copy(), nil
	}
	version, err := s.discovery.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("version of the API server: %w", err)
	}
	groups, resources, err := s.discovery.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("API versions that the server serves: %w", err)
	}
	var versions chartutil.VersionSet
	for _, g := range groups {
		for _, v := range g.Versions {
			versions = append(versions, v.GroupVersion)
		}
	}
	seen := map[string]bool{}
	for _, list := range resources {
		for _, r := range list.APIResources {
			if id := list.GroupVersion + "/" + r.Kind; !seen[id] {
				seen[id] = true
				versions = append(versions, id)
			}
		}
	}
	s.known = &chartutil.Capabilities{
		APIVersions: versions,
		KubeVersion: chartutil.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}
	s.etag, s.asked = etag, asked
	return s.known.Copy(), nil
}

// listOfAPIs asks whether the list of APIs is the one with the given tag, and
// returns the tag it has. A server that tags nothing has a new list each time.
func (s *served) listOfAPIs(ctx context.Context, etag string) (string, bool, error) {
	base, _, err := rest.DefaultServerUrlFor(s.config)
	if err != nil {
		return "", false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("apis").String(), nil)
	if err != nil {
		return "", false, err
	}
	req.Header.Set("Accept", discovery.AcceptV2)
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusNotModified:
		return etag, true, nil
	case http.StatusOK:
		return resp.Header.Get("ETag"), false, nil
	default:
		return "", false, fmt.Errorf("GET /apis: %s", resp.Status)
	}
}
