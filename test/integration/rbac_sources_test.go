// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"github.com/chartgate/chartgate/test/chartserver"
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
	c.apps.Delete("shop")
	c.services.Delete("orders")
	u.WaitObjectGone("v1", "ConfigMap", "shop")
	u.WaitObjectGone("v1", "ConfigMap", "orders")
}
