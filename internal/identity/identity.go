// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity says who Chartgate acts as, and holds the API clients of
// each such identity. Every read and write that serves a custom resource goes
// through the clients of that resource's identity, so the operator's own
// rights never serve a tenant by accident.
package identity

import (
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

// IsOperator tells whether requests are made with the operator's own rights.
func (i Identity) IsOperator() bool { return i == Operator }

// String is the user name as the API server sees it, or "operator".
func (i Identity) String() string {
	if i.IsOperator() {
		return "operator"
	}
	return "system:serviceaccount:" + i.Namespace + ":" + i.ServiceAccount
}

// Config returns a copy of base that acts as the identity.
func (i Identity) Config(base *rest.Config) *rest.Config {
	cfg := rest.CopyConfig(base)
	if !i.IsOperator() {
		cfg.Impersonate = rest.ImpersonationConfig{
			UserName: i.String(),
			Groups: []string{
				"system:serviceaccounts",
				"system:serviceaccounts:" + i.Namespace,
				"system:authenticated",
			},
		}
	}
	return cfg
}
