// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

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

	capabilities capabilities
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
		Identity:   id,
		Config:     cfg,
		Mapper:     mapper,
		Dynamic:    dyn,
		Metadata:   md,
		Kubernetes: kube,
		http:       httpClient,
		discovery:  kube.Discovery(),
	}, nil
}
