// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// webAppStory takes a WebApp with all its objects through install, repair, an
// upgrade by force and uninstall.
func (u *underRights) webAppStory() {
	u.Helper()
	k := webAppKind(u.Env)
	k.Create("web", map[string]any{
		"image": "registry.test/web:1", "networkPolicy": map[string]any{"enabled": true},
		"ingress": map[string]any{"enabled": true, "host": "web.test"},
	})
	k.WaitReady("web")
	for apiVersion, kind := range map[string]string{"policy/v1": "PodDisruptionBudget", "networking.k8s.io/v1": "NetworkPolicy"} {
		obj := u.Object(apiVersion, kind, "web")
		edit := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"mine"}}}`))
		if err := u.Client.Patch(u.Ctx, obj, edit); err != nil {
			u.Fatal(err)
		}
		u.WaitObject(apiVersion, kind, "web", func(o *unstructured.Unstructured) error {
			if o.GetLabels()["app"] != "web" {
				return errors.New("it is not put back")
			}
			return nil
		})
	}
	k.Patch("web", `{"metadata":{"annotations":{"helm.sdk.operatorframework.io/upgrade-force":"true"}},"spec":{"image":"registry.test/web:2"}}`)
	waitHistory(u.Env, "web", "1:superseded 2:deployed")
	k.Delete("web")
	u.WaitObjectGone("policy/v1", "PodDisruptionBudget", "web")
}
