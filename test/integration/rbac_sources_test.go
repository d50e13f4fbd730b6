// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"

	"github.com/chartgate/chartgate/test/chartserver"
	"github.com/chartgate/chartgate/test/controlplane"
)

// chosenStory takes a HelmApp and a Microservice through install and uninstall: what
// they make is the rights of their namespace's ServiceAccount, not the operator's.
func (u *underRights) chosenStory() {
	u.Helper()
	c := chosenKinds(u.Env)
	bind(u.Env, u.Namespace, "default", "edit") // who serves them
	charts := chartserver.NewRepository(u)
	publish(u, charts, "1.0.0")
	c.secret("charts", chartserver.CASecret(charts.Server, nil))
	c.apps.Create("shop", map[string]any{"chart": shop(charts.URL, "1.0.0")})
	c.services.Create("orders", map[string]any{"resources": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: orders}\n"})
	c.apps.WaitReady("shop")
	c.services.WaitReady("orders")
	books := u.Guestbook() // which is the operator's own, but where it says otherwise
	books.Create("theirs", serviceAccount("default"))
	books.WaitReady("theirs")
	made := u.requests(controlplane.ByVerb("create"), controlplane.ByResource("deployments"), controlplane.ByNamespace(u.Namespace))
	if n := slices.IndexFunc(made, func(r controlplane.AuditEvent) bool { return r.ImpersonatedUser != nil }); n < 0 {
		u.Error("a Guestbook that names a ServiceAccount was released by the operator itself")
	}
	books.Delete("theirs")
	c.apps.Delete("shop")
	c.services.Delete("orders")
	u.WaitObjectGone("v1", "ConfigMap", "shop")
	u.WaitObjectGone("v1", "ConfigMap", "orders")
}
