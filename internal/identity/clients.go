// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// capabilitiesTTL bounds how long the list of served API versions is believed.
// Charts render rarely (once a change), so a refresh costs little, and a chart
// that asks for an API which has just appeared sees it within this time.
const capabilitiesTTL = 30 * time.Second

// Clients holds the API clients of one identity. They share one HTTP transport
// and are safe for concurrent use.
type Clients struct {
	// Identity the clients act as.
	Identity Identity
	// Config the clients were made from. Not to be changed.
	Config *rest.Config
	// Mapper maps kinds to resources; it asks the API server again for kinds it does not know.
	Mapper meta.RESTMapper
	// Dynamic reads and writes objects of any kind.
	Dynamic dynamic.Interface
	// Metadata watches objects of any kind by their metadata.
	Metadata metadata.Interface
	// Kubernetes reads and writes built-in kinds.
	Kubernetes kubernetes.Interface

	http      *http.Client
	discovery discovery.DiscoveryInterface

	mu           sync.Mutex
	restClients  map[schema.GroupVersion]resource.RESTClient
	capabilities *chartutil.Capabilities
	capsExpire   time.Time
}

// newClients makes the clients of one identity from the operator's own config.
func newClients(base *rest.Config, id Identity) (*Clients, error) {
	cfg := id.Config(base)
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("HTTP client for %s: %w", id, err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("REST mapper for %s: %w", id, err)
	}
	dyn, err := dynamic.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("dynamic client for %s: %w", id, err)
	}
	md, err := metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), httpClient)
	if err != nil {
		return nil, fmt.Errorf("metadata client for %s: %w", id, err)
	}
	kube, err := kubernetes.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", id, err)
	}
	return &Clients{
		Identity:    id,
		Config:      cfg,
		Mapper:      mapper,
		Dynamic:     dyn,
		Metadata:    md,
		Kubernetes:  kube,
		http:        httpClient,
		discovery:   kube.Discovery(),
		restClients: map[schema.GroupVersion]resource.RESTClient{},
	}, nil
}

// RESTClient returns a client for the raw requests that Helm's own code makes
// on objects of the group and version.
func (c *Clients) RESTClient(gv schema.GroupVersion) (resource.RESTClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rc, ok := c.restClients[gv]; ok {
		return rc, nil
	}
	cfg := rest.CopyConfig(c.Config)
	cfg.GroupVersion = &gv
	cfg.APIPath = "/apis"
	if gv.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.ContentConfig = resource.UnstructuredPlusDefaultContentConfig()
	cfg.GroupVersion = &gv
	rc, err := rest.RESTClientForConfigAndClient(cfg, c.http)
	if err != nil {
		return nil, fmt.Errorf("REST client for %s: %w", gv, err)
	}
	c.restClients[gv] = rc
	return rc, nil
}

// Capabilities returns what the API server is and serves, as charts see it in
// .Capabilities. The answer is cached for a short time; see Invalidate.
func (c *Clients) Capabilities() (*chartutil.Capabilities, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.capabilities != nil && time.Now().Before(c.capsExpire) {
		return c.capabilities.Copy(), nil
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
	c.capabilities = &chartutil.Capabilities{
		APIVersions: versions,
		KubeVersion: chartutil.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}
	c.capsExpire = time.Now().Add(capabilitiesTTL)
	return c.capabilities.Copy(), nil
}

// Invalidate forgets what the API server serves, after something changed it.
func (c *Clients) Invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.capabilities = nil
}
