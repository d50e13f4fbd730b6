// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity says who Chartgate acts as, and holds the API clients of
// each such identity. Every read and write that serves a custom resource goes
// through the clients of that resource's identity, so the operator's own
// rights never serve a tenant by accident.
package identity

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
)

// Identity is who a request to the API server is made as: the operator itself
// (the zero value), or a ServiceAccount that the operator impersonates.
// It is comparable, so caches are keyed by it.
type Identity struct {
	// Namespace of the ServiceAccount; empty for the operator.
	Namespace string
	// ServiceAccount name; empty for the operator.
	ServiceAccount string
}

// Operator is the operator's own identity.
var Operator = Identity{}

// ServiceAccount returns the identity of a ServiceAccount. The name has to be one
// that a ServiceAccount can have: anything else could be read as somebody else.
func ServiceAccount(namespace, name string) (Identity, error) {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return Identity{}, fmt.Errorf("%q is no name of a ServiceAccount: %s", name, problems[0])
	}
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return Identity{}, fmt.Errorf("%q is no name of a namespace: %s", namespace, problems[0])
	}
	return Identity{Namespace: namespace, ServiceAccount: name}, nil
}

// IsOperator tells whether requests are made with the operator's own rights.
func (i Identity) IsOperator() bool { return i == Operator }

// String is the user name as the API server sees it, or "operator".
func (i Identity) String() string {
	if i.IsOperator() {
		return "operator"
	}
	return "system:serviceaccount:" + i.Namespace + ":" + i.ServiceAccount
}

// Config returns a copy of base that acts as the identity. Groups are not named:
// the API server puts a ServiceAccount into those it belongs to by itself, so the
// operator needs the right to impersonate ServiceAccounts, and no right to
// impersonate groups.
func (i Identity) Config(base *rest.Config) *rest.Config {
	cfg := rest.CopyConfig(base)
	if !i.IsOperator() {
		cfg.Impersonate = rest.ImpersonationConfig{
			UserName: i.String(),
		}
	}
	return cfg
}
