// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"strings"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// Policy says which repositories charts may come from. The zero value allows
// every repository that is reached by TLS and is not on this machine or its link.
//
// A pattern is scheme://host[:port][/path]. It allows the path and all below
// it. Each part of the path may hold *, ? and [...] as in a shell; a host may
// start with "*." for all its subdomains, or be "*"; a port may be "*". Without
// a port, the scheme's own is meant.
type Policy struct {
	// Repositories that are allowed. Empty: all.
	Repositories []string
	// PlainHTTP lists those that may be reached without TLS, with scheme http or oci. They have to be allowed as well.
	PlainHTTP []string
	// Networks whose addresses may be connected to though they are on this machine or its link.
	Networks []netip.Prefix
}

// policy is a Policy that was read.
type policy struct {
	repositories, plainHTTP []pattern
	networks                []netip.Prefix
}

type pattern struct {
	scheme, host, port string
	path               []string
}

func newPolicy(p Policy) (*policy, error) {
	out := &policy{networks: p.Networks}
	for _, text := range p.Repositories {
		pat, err := parsePattern(text)
		if err != nil {
			return nil, fmt.Errorf("allowed repository %q: %w", text, err)
		}
		out.repositories = append(out.repositories, pat)
	}
	for _, text := range p.PlainHTTP {
		pat, err := parsePattern(text)
		if err == nil && pat.scheme == "https" {
			err = fmt.Errorf("https has nothing to do with plain HTTP; write http:// or oci://")
		}
		if err != nil {
			return nil, fmt.Errorf("plain HTTP repository %q: %w", text, err)
		}
		out.plainHTTP = append(out.plainHTTP, pat)
	}
	return out, nil
}

func parsePattern(text string) (pattern, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || (scheme != "https" && scheme != "http" && scheme != "oci") {
		return pattern{}, fmt.Errorf("it has to start with https://, http:// or oci://, as in https://charts.example.com/stable")
	}
	host, below, _ := strings.Cut(rest, "/")
	p := pattern{scheme: scheme}
	p.host, p.port = splitPort(strings.ToLower(host))
	if p.host == "" || strings.ContainsAny(strings.TrimPrefix(p.host, "*."), "*?@#") && p.host != "*" {
		return pattern{}, fmt.Errorf("its host has to be a name, *.name for subdomains, or *")
	}
	if p.port == "" {
		p.port = defaultPort(scheme)
	}
	if below = strings.Trim(below, "/"); below != "" {
		p.path = strings.Split(below, "/")
		if p.path[len(p.path)-1] == "*" {
			p.path = p.path[:len(p.path)-1] // all below it, at any depth
		}
	}
	for _, segment := range p.path {
		if _, err := path.Match(segment, ""); err != nil || segment == "" || segment == ".." {
			return pattern{}, fmt.Errorf("%q in its path is no pattern", segment)
		}
	}
	return p, nil
}

// splitPort splits host:port, where the host may be an IPv6 address in brackets.
func splitPort(host string) (name, port string) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.HasSuffix(host, "]") {
		return host, ""
	}
	return host[:i], host[i+1:]
}

func defaultPort(scheme string) string {
	if scheme == "http" {
		return "80"
	}
	return "443"
}

func (p pattern) match(u *url.URL) bool {
	host, port := splitPort(u.Host)
	if port == "" {
		port = defaultPort(u.Scheme)
	}
	if p.scheme != u.Scheme || (p.port != "*" && p.port != port) {
		return false
	}
	if below, wild := strings.CutPrefix(p.host, "*."); wild {
		if !strings.HasSuffix(host, "."+below) {
			return false
		}
	} else if p.host != "*" && p.host != host {
		return false
	}
	have := strings.Split(strings.Trim(u.Path, "/"), "/")
	if len(have) < len(p.path) {
		return false
	}
	for i, segment := range p.path {
		if ok, err := path.Match(segment, have[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// allowsPlain tells whether what the URL names may be reached without TLS.
func (p *policy) allowsPlain(u *url.URL) bool { return matchesAny(p.plainHTTP, u) }

// check refuses a repository that is not allowed. For a chart in a registry, the URL is the chart's.
func (p *policy) check(u *url.URL) error {
	if len(p.repositories) > 0 && !matchesAny(p.repositories, u) {
		return stuck(v1alpha1.ReasonRepositoryNotAllowed, "repository %s is not among those that this operator allows; ask whoever runs it to add it to --allowed-repositories, or use another one", place(u))
	}
	if u.Scheme == "http" && !p.allowsPlain(u) {
		return stuck(v1alpha1.ReasonRepositoryNotAllowed, "repository %s would be reached without TLS, which this operator does not allow for it; use https://", place(u))
	}
	return nil
}

func matchesAny(patterns []pattern, u *url.URL) bool {
	for _, p := range patterns {
		if p.match(u) {
			return true
		}
	}
	return false
}

// refusedNetworks are those that a repository has no business in: the machine
// itself, its link, where clouds hand out credentials, and what is no unicast.
var refusedNetworks = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("100.100.100.200/32"), // metadata of Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // wire server of Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // metadata of Oracle Cloud
	netip.MustParsePrefix("224.0.0.0/3"),        // multicast, reserved, broadcast
	netip.MustParsePrefix("::/127"),             // unspecified and loopback
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fd00:ec2::/32"), // metadata of AWS
	netip.MustParsePrefix("ff00::/8"),
}

// embedding are the IPv6 networks whose addresses end in an IPv4 address that they lead to.
var embedding = []netip.Prefix{
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("::ffff:0:0:0/96"),
}

// allowsAddress tells whether a connection to the address may be made.
func (p *policy) allowsAddress(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, n := range p.networks {
		if n.Contains(addr) {
			return true
		}
	}
	for _, n := range refusedNetworks {
		if n.Contains(addr) {
			return false
		}
	}
	raw := addr.As16()
	for _, n := range embedding {
		if addr.Is6() && n.Contains(addr) {
			return p.allowsAddress(netip.AddrFrom4([4]byte(raw[12:])))
		}
	}
	if sixToFour := netip.MustParsePrefix("2002::/16"); sixToFour.Contains(addr) {
		return p.allowsAddress(netip.AddrFrom4([4]byte(raw[2:6])))
	}
	return true
}
