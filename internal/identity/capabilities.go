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

// capabilities is what the API server was last found to be and serve.
type capabilities struct {
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
	arrived := time.Now()
	c.capabilities.mu.Lock()
	defer c.capabilities.mu.Unlock()
	if c.capabilities.known != nil && c.capabilities.asked.After(arrived) {
		return c.capabilities.known.Copy(), nil // asked for by somebody who came after this call
	}
	asked := time.Now()
	etag, same, err := c.listOfAPIs(ctx, c.capabilities.etag)
	if err != nil {
		return nil, fmt.Errorf("API versions that the server serves: %w", err)
	}
	if same && c.capabilities.known != nil {
		c.capabilities.asked = asked
		return c.capabilities.known.Copy(), nil
	}
	version, err := c.discovery.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("version of the API server: %w", err)
	}
	groups, resources, err := c.discovery.ServerGroupsAndResources()
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
	c.capabilities.known = &chartutil.Capabilities{
		APIVersions: versions,
		KubeVersion: chartutil.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}
	c.capabilities.etag, c.capabilities.asked = etag, asked
	return c.capabilities.known.Copy(), nil
}

// listOfAPIs asks whether the list of APIs is the one with the given tag, and
// returns the tag it has. A server that tags nothing has a new list each time.
func (c *Clients) listOfAPIs(ctx context.Context, etag string) (string, bool, error) {
	base, _, err := rest.DefaultServerUrlFor(c.Config)
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
	resp, err := c.http.Do(req)
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
