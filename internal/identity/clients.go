// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Clients holds the API clients of one identity. They share one HTTP transport
// and are safe for concurrent use. What the API server serves is asked by the
// operator's clients, for all identities: it is the same for everybody.
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

	served *served
}

// newClients makes the clients of one identity from the operator's own config.
// The operator's own clients are nil only when it is they that are made.
func newClients(base *rest.Config, id Identity, operator *Clients) (*Clients, error) {
	cfg := id.Config(base)
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("HTTP client for %s: %w", id, err)
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
	c := &Clients{Identity: id, Config: cfg, Dynamic: dyn, Metadata: md, Kubernetes: kube}
	if operator != nil {
		c.Mapper, c.served = operator.Mapper, operator.served
		return c, nil
	}
	if c.Mapper, err = apiutil.NewDynamicRESTMapper(cfg, httpClient); err != nil {
		return nil, fmt.Errorf("REST mapper: %w", err)
	}
	c.served = &served{config: cfg, http: httpClient, discovery: kube.Discovery()}
	return c, nil
}
