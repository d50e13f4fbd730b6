// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Names of the files and roles that an operator's rights are written to.
const (
	RoleFile        = "role.yaml"
	ClusterRoleFile = "cluster_role.yaml"

	roleName        = "manager-role"
	clusterRoleName = "manager-cluster-role"
)

// Watched is a kind of watches.yaml with its chart looked at.
type Watched struct {
	Kind schema.GroupKind
	// Chart is the chart's path.
	Chart string
	// Rights that releases of the chart take; nil where the chart isn't known.
	Rights *ChartRights
}

// File is one file to write.
type File struct {
	Name    string
	Content []byte
}

const generated = "Made by chartgen rbac (make manifests) from watches.yaml and its charts: change these, not this file.\n"

// Operator writes the roles of an operator that serves the kinds: one for what is
// in namespaces, and one for what is in none.
func Operator(watched []Watched, kinds *Kinds) ([]File, []Message, error) {
	inNamespaces := &role{name: roleName, about: generated +
		"What the operator does within namespaces. Bound by RoleBindings, it gives rights in their namespaces alone."}
	inCluster := &role{name: clusterRoleName, about: generated +
		"What the operator does with kinds that are in no namespace, or has to hold in the whole cluster."}
	of := func(cluster bool) *role {
		if cluster {
			return inCluster
		}
		return inNamespaces
	}
	var messages []Message
	own := map[bool]rights{false: {}, true: {}}
	for _, w := range watched {
		r, ok := kinds.Resource(w.Kind)
		if !ok {
			return nil, nil, fmt.Errorf("how %s of watches.yaml is served is not known: name the folder of its CRD (--crds), or add %s", w.Kind, flagFor(w.Kind))
		}
		own[r.Cluster].addAll(watchNeeds(r))
	}
	for _, cluster := range []bool{false, true} {
		of(cluster).add("The kinds of watches.yaml.", own[cluster])
	}
	for _, n := range operatorNeeds {
		of(n.cluster).add(n.reason, n.rights())
	}
	for _, chart := range byChart(watched) {
		chart.Rights.addTo(chart.Chart, inNamespaces, inCluster)
		messages = append(messages, chart.Rights.Messages...)
	}
	return []File{{RoleFile, inNamespaces.file()}, {ClusterRoleFile, inCluster.file()}}, messages, nil
}

// byChart returns what is known of charts, by their paths; a chart of several kinds comes several times.
func byChart(watched []Watched) []Watched {
	known := slices.DeleteFunc(slices.Clone(watched), func(w Watched) bool { return w.Rights == nil })
	slices.SortStableFunc(known, func(a, b Watched) int { return cmp.Compare(a.Chart, b.Chart) })
	return known
}

// addTo adds the chart's rights to the roles.
func (c *ChartRights) addTo(chartPath string, inNamespaces, inCluster *role) {
	for _, part := range []struct {
		reason string
		rights scoped
	}{
		{"What the chart " + chartPath + " makes.", c.objects},
		{"What the templates of " + chartPath + " look up.", c.lookups},
		{"What roles of " + chartPath + " grant: the API server lets nobody grant what they don't hold.", c.passedOn},
	} {
		inNamespaces.add(part.reason, part.rights.namespaced)
		inCluster.add(part.reason, part.rights.cluster)
	}
}

// Rules prints the rules that releases of one chart take, for its author to read.
func (c *ChartRights) Rules(chartPath string) []byte {
	inNamespaces, inCluster := &role{}, &role{}
	c.addTo(chartPath, inNamespaces, inCluster)
	var b bytes.Buffer
	for _, part := range []struct {
		about string
		role  *role
	}{{"Within namespaces:", inNamespaces}, {"In the whole cluster:", inCluster}} {
		if len(part.role.sections) > 0 {
			comment(&b, part.about)
			part.role.writeRules(&b)
		}
	}
	return b.Bytes()
}
