// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// need is something that the operator does by itself, whatever its charts make.
type need struct {
	reason  string
	cluster bool
	groups  []schema.GroupResource
	verbs   []string
}

// operatorNeeds are the operator's own needs. Each request that the operator makes
// by itself is one of these, of config/rbac/leader_election_role.yaml (its
// lease), or of config/rbac/shared/metrics_auth_role.yaml (who may read its metrics).
var operatorNeeds = []need{
	{
		reason: "Helm keeps a release in Secrets. Gates look for Secrets and for their keys.",
		groups: []schema.GroupResource{{Resource: "secrets"}},
		verbs:  []string{"get", "list", "watch", "create", "update", "patch", "delete"},
	},
	{
		reason: "Gates look at ConfigMaps, and approvals may be some. Plans of held changes are ConfigMaps that the operator writes.",
		groups: []schema.GroupResource{{Resource: "configmaps"}},
		verbs:  []string{"get", "list", "watch", "create", "update", "delete"},
	},
	{
		reason: "Who approved what.",
		groups: []schema.GroupResource{{Group: v1alpha1.GroupVersion.Group, Resource: v1alpha1.ProtectsApprovals}},
		verbs:  []string{"list", "watch"},
	},
	{
		reason: "Events are how people hear of transitions; one that comes again is counted up.",
		groups: []schema.GroupResource{{Resource: "events"}},
		verbs:  []string{"create", "patch"},
	},
	{
		reason: "A resource may have Chartgate act as a ServiceAccount of its own namespace (docs/tenancy.md).",
		groups: []schema.GroupResource{{Resource: "serviceaccounts"}},
		verbs:  []string{"get", "impersonate"},
	},
	{
		reason:  "Does the API server check who approves? Only then do ReleaseApprovals count.",
		cluster: true,
		groups: []schema.GroupResource{
			{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
			{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"},
			{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
		},
		verbs: []string{"list", "watch"},
	},
	{
		reason:  "A webhook that checks it may be limited to some namespaces by their labels, as OLM's are.",
		cluster: true,
		groups:  []schema.GroupResource{{Resource: "namespaces"}},
		verbs:   []string{"get"},
	},
}

// watchNeeds are the rights on a kind of watches.yaml: resources are read and watched,
// finalizers are patched, and the status is. Finalizers may be updated for the sake of
// clusters that ask for it before an object may have an owner (OwnerReferencesPermissionEnforcement).
func watchNeeds(r Resource) rights {
	out := rights{}
	out.add(r.GroupResource, "get", "list", "watch", "patch")
	out.add(schema.GroupResource{Group: r.Group, Resource: r.Resource + "/status"}, "patch")
	out.add(schema.GroupResource{Group: r.Group, Resource: r.Resource + "/finalizers"}, "update")
	return out
}

func (n need) rights() rights {
	out := rights{}
	for _, g := range n.groups {
		out.add(g, n.verbs...)
	}
	return out
}
