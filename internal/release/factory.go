// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	helmkube "helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubectl/pkg/validation"

	"github.com/chartgate/chartgate/internal/identity"
)

// factory gives Helm's code the clients of one identity.
type factory struct {
	clients   *identity.Clients
	namespace string
}

var (
	_ helmkube.Factory                   = factory{}
	_ genericclioptions.RESTClientGetter = factory{}
)

func (f factory) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(f.clients.Config), nil }

func (f factory) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return memory.NewMemCacheClient(f.clients.Kubernetes.Discovery()), nil
}

func (f factory) ToRESTMapper() (meta.RESTMapper, error) { return f.clients.Mapper, nil }

func (f factory) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(clientcmdapi.Config{}, &clientcmd.ConfigOverrides{
		Context: clientcmdapi.Context{Namespace: f.namespace},
	})
}

func (f factory) DynamicClient() (dynamic.Interface, error) { return f.clients.Dynamic, nil }

func (f factory) KubernetesClientSet() (*kubernetes.Clientset, error) {
	return kubernetes.NewForConfig(f.clients.Config)
}

func (f factory) NewBuilder() *resource.Builder { return resource.NewBuilder(f) }

// Validator checks nothing: the API server validates strictly what is written.
func (f factory) Validator(string) (validation.Schema, error) { return validation.NullSchema{}, nil }
