// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/harness"
)

// A HelmApp as people have long written it: a chart, where it goes, its values, and three gates.
func TestHelmAppOfThreeGates(t *testing.T) {
	c := serveChosen(t)
	target := harness.New(t).Namespace
	bind(c.Env, target, "default", "edit")
	// The roles of config/rbac/shared, which are not installed here, have this aggregated into edit.
	c.Kubectl("create", "role", "helmapps", "-n", c.Namespace, "--verb=get,list,watch", "--resource=helmapps.apps.chartgate.dev")
	c.Kubectl("create", "rolebinding", "helmapps", "-n", c.Namespace, "--role=helmapps", "--serviceaccount="+c.Namespace+":default")
	charts := shops(t, []string{c.Namespace}, "1.0.0")
	told := followed(c.Env, "helmapps")
	chart := shop(charts.URL, "1.0.0")
	chart["checkInterval"] = int64(3600)
	c.apps.Create("shop", map[string]any{
		"chart": chart, "targetNamespace": target,
		"values": map[string]any{"message": "from the spec"},
		"gates": []any{
			map[string]any{"name": "shop-config", "type": "ConfigMapExists"},
			map[string]any{"name": "database", "type": "DependencyReady"},
			map[string]any{"name": "sign-off", "type": "ManualApproval"},
		},
	})
	waitHeld(c.apps, "shop")
	there := in(c.Env, target)
	createConfigMap(there, "shop-config", nil)
	c.apps.Create("database", map[string]any{"chart": shop(charts.URL, "1.0.0")})
	createConfigMap(c.Env, "approval-shop", map[string]string{"approved": "true"})

	st := c.apps.WaitReady("shop")
	if st.Phase != v1alpha1.PhaseDeployed || st.ReleaseName != "shop" || st.ReleaseNamespace != target || st.LastDeployedVersion != "1.0.0" || len(st.Gates) != 3 {
		t.Errorf("status: %+v", st)
	}
	wantMessage(there, "shop", "from the spec", "1.0.0")
	if out := c.Helm("history", "shop", "-n", target); !strings.Contains(out, "deployed") || !strings.Contains(out, "shop-1.0.0") {
		t.Errorf("helm history says:\n%s", out)
	}
	wantTold(c.Env, told, string(v1alpha1.PhasePending)+": ", string(v1alpha1.PhaseDeploying)+": ", string(v1alpha1.PhaseDeployed)+": ")
	c.apps.Delete("shop")
	there.WaitObjectGone("v1", "ConfigMap", "shop")
	if left := there.Statuses("shop"); left != "" {
		t.Errorf("left of the release: %s", left)
	}
}
