// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/chartgate/chartgate/internal/chartsource"
	"github.com/chartgate/chartgate/internal/release"
)

// chartOptions say where charts may come from that resources choose at run time.
type chartOptions struct {
	allowedRepositories []string
	plainRepositories   []string
	allowedNetworks     []string
	cacheDir            string
	cacheSize           string
}

func (o *chartOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.allowedRepositories, "allowed-repositories", nil, "Patterns of the repositories that resources may take charts from, such as https://charts.example.com/stable or oci://*.example.com. None: all.")
	fs.StringSliceVar(&o.plainRepositories, "plain-http-repositories", nil, "Patterns, with http:// or oci://, of the repositories that may be reached without TLS.")
	fs.StringSliceVar(&o.allowedNetworks, "allowed-repository-networks", nil, "Networks, such as 10.0.0.0/8, that repositories may be in though they are on the operator's machine or its link, or a cloud's metadata service.")
	fs.StringVar(&o.cacheDir, "chart-cache-dir", "", "Folder of its own for charts from repositories, so that a restart does not need them. Default: a temporary one.")
	fs.StringVar(&o.cacheSize, "chart-cache-size", "256Mi", "How large that folder may become.")
}

// policy reads which repositories are allowed.
func (o *chartOptions) policy() (chartsource.Policy, error) {
	p := chartsource.Policy{Repositories: o.allowedRepositories, PlainHTTP: o.plainRepositories}
	for _, text := range o.allowedNetworks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return p, fmt.Errorf("--allowed-repository-networks: %q is no network such as 10.0.0.0/8", text)
		}
		p.Networks = append(p.Networks, network.Masked())
	}
	return p, nil
}

// charts are the sources of charts that kinds share.
type charts struct {
	options    *chartOptions
	inline     *chartsource.Inline
	repository *chartsource.Repository
	temporary  string // folder to remove in the end
}

func newCharts(o *chartOptions) *charts {
	return &charts{options: o, inline: chartsource.NewInline(release.ChartDigest)}
}

// fromRepositories returns the source of charts in repositories: one for the
// process, which is made for the first kind that needs it.
func (c *charts) fromRepositories() (*chartsource.Repository, error) {
	if c.repository != nil {
		return c.repository, nil
	}
	policy, err := c.options.policy()
	if err != nil {
		return nil, err
	}
	size, err := resource.ParseQuantity(c.options.cacheSize)
	if err != nil || size.Sign() <= 0 {
		return nil, fmt.Errorf("--chart-cache-size: %q is no size such as 256Mi", c.options.cacheSize)
	}
	dir := c.options.cacheDir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "chartgate-charts-"); err != nil {
			return nil, fmt.Errorf("folder for charts: %w; name one by --chart-cache-dir", err)
		}
		c.temporary = dir
	}
	c.repository, err = chartsource.NewRepository(chartsource.Options{
		Digest: release.ChartDigest, Policy: policy, CacheDir: dir, CacheBytes: size.Value(),
	})
	return c.repository, err
}

// close lets go of what the sources keep on disk.
func (c *charts) close() error {
	var err error
	if c.repository != nil {
		err = c.repository.Close()
	}
	if c.temporary != "" {
		err = errors.Join(err, os.RemoveAll(c.temporary))
	}
	return err
}
