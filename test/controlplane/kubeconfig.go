// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Config returns a new configuration for the cluster's administrator, a member
// of system:masters, without client-side throttling.
func (c *Cluster) Config() *rest.Config {
	return rest.CopyConfig(c.admin)
}

// KubeconfigPath returns the path of the administrator's kubeconfig.
func (c *Cluster) KubeconfigPath() string { return c.path("admin.kubeconfig") }

// User returns a configuration for a user who has the rights that RBAC grants
// to the name or groups (and to system:authenticated), and no others.
func (c *Cluster) User(name string, groups ...string) (*rest.Config, error) {
	pair, err := c.authority.client(name, groups...)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for user %q: %w", name, err)
	}
	return &rest.Config{
		Host: c.url(),
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   c.authority.certPEM,
			CertData: pair.cert,
			KeyData:  pair.key,
		},
		QPS: -1,
	}, nil
}

// UserKubeconfig writes a kubeconfig for what [Cluster.User] returns into the
// cluster's folder, under a name of its own, and returns its path.
func (c *Cluster) UserKubeconfig(name, user string, groups ...string) (string, error) {
	config, err := c.User(user, groups...)
	if err != nil {
		return "", err
	}
	kubeconfig := c.path(name + ".kubeconfig")
	return kubeconfig, WriteKubeconfig(kubeconfig, config)
}

// WriteKubeconfig writes a kubeconfig for the server and credentials of a
// configuration such as [Cluster.User] returns. Only its owner can read it.
func WriteKubeconfig(path string, config *rest.Config) error {
	const name = "chartgate"
	kubeconfig := api.Config{
		Clusters: map[string]*api.Cluster{name: {
			Server:                   config.Host,
			CertificateAuthority:     config.CAFile,
			CertificateAuthorityData: config.CAData,
			TLSServerName:            config.ServerName,
			InsecureSkipTLSVerify:    config.Insecure,
		}},
		AuthInfos: map[string]*api.AuthInfo{name: {
			ClientCertificate:     config.CertFile,
			ClientCertificateData: config.CertData,
			ClientKey:             config.KeyFile,
			ClientKeyData:         config.KeyData,
			Token:                 config.BearerToken,
			TokenFile:             config.BearerTokenFile,
		}},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
	if err := clientcmd.WriteToFile(kubeconfig, path); err != nil {
		return fmt.Errorf("write the kubeconfig %s: %w", path, err)
	}
	return nil
}
