// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/test/harness"
)

// serviceMonitors is the group of the Prometheus operator's kinds.
const serviceMonitors = "monitoring.coreos.com"

// installServiceMonitors serves the kind of the Prometheus operator, as far as an API server cares.
func installServiceMonitors(e *harness.Env) {
	e.Helper()
	e.InstallCRD(openCRD(serviceMonitors, "ServiceMonitor"))
}

// openCRD is a namespaced kind of version v1 whose objects may hold anything.
func openCRD(group, kind string) *apiextensionsv1.CustomResourceDefinition {
	singular, keep := strings.ToLower(kind), true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: singular + "s", Singular: singular},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}}}},
		},
	}
}

// databaseStory takes a Database with all its objects through install, repair,
// growth, an upgrade by force and an uninstall that takes the data with it.
func (u *underRights) databaseStory() {
	u.Helper()
	provideVolumes(u.Env)
	k := databaseKind(u.Env)
	k.Create("db", databaseSpec(u.Env, 2, map[string]any{
		"backup": map[string]any{"enabled": true}, "monitoring": map[string]any{"enabled": true}, "deletionPolicy": "Delete",
	}))
	waitServers(k, "db", 2, "17")
	for _, o := range []struct{ apiVersion, kind, name string }{
		{"apps/v1", "StatefulSet", "db-standby"}, {"batch/v1", "CronJob", "db-backup"}, {serviceMonitors + "/v1", "ServiceMonitor", "db"},
		{"v1", "ConfigMap", "db-scripts"}, {"v1", "Service", "db-ro"},
	} {
		edit := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"mine"}}}`))
		if err := u.Client.Patch(u.Ctx, u.Object(o.apiVersion, o.kind, o.name), edit); err != nil {
			u.Fatal(err)
		}
		u.WaitObject(o.apiVersion, o.kind, o.name, func(o *unstructured.Unstructured) error {
			if o.GetLabels()["app"] != "db" {
				return errors.New("it is not put back")
			}
			return nil
		})
	}
	k.Patch("db", `{"spec":{"storageSize":"2Gi"}}`)
	waitHistory(u.Env, "db", "1:superseded 2:deployed")
	k.Patch("db", `{"metadata":{"annotations":{"helm.sdk.operatorframework.io/upgrade-force":"true"}},"spec":{"version":"17.5"}}`)
	waitHistory(u.Env, "db", "1:superseded 2:superseded 3:deployed")
	k.Delete("db")
	u.Eventually("the claims are gone", func() error {
		if left := claims(u.Env, "db"); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}
