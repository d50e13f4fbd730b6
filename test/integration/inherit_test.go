// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	helmrelease "helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/test/harness"
)

// inherited makes a resource with its release the way another Helm operator
// leaves them: its finalizer, its status, a Secret that the resource owns, and
// owner references in the stored manifest.
func inherited(t *testing.T, e *harness.Env, k *harness.Kind, name, finalizer string) {
	t.Helper()
	obj := k.Named(name)
	obj.SetFinalizers([]string{finalizer})
	obj.Object["spec"] = map[string]any{"message": "theirs"}
	if err := e.Client.Create(e.Ctx, obj); err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"status":{"deployedRelease":{"name":%q,"manifest":"all of it"},"conditions":[{"type":"Deployed","status":"True"}]}}`, name)
	if err := e.Client.Status().Patch(e.Ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	e.Helm("install", name, k.Chart, "--set", "message=theirs")
	owner := fmt.Sprintf("  ownerReferences:\n  - apiVersion: %s\n    kind: %s\n    name: %s\n    uid: %s\n    controller: true\n    blockOwnerDeletion: true\n",
		k.GroupVersion(), k.Kind, name, obj.GetUID())
	forge(t, e, name, func(rel *helmrelease.Release) {
		rel.Manifest = strings.Replace(rel.Manifest, "\ndata:\n", "\n"+owner+"data:\n", 1)
	})
	refs := []metav1.OwnerReference{*metav1.NewControllerRef(obj, k.GroupVersionKind)}
	for kind, objName := range map[string]string{"Secret": "sh.helm.release.v1." + name + ".v1", "ConfigMap": name} {
		o := e.Object("v1", kind, objName)
		o.SetOwnerReferences(refs)
		if err := e.Client.Update(e.Ctx, o); err != nil {
			t.Fatal(err)
		}
	}
}

// plainChart renders alike wherever it is rendered.
var plainChart = map[string]string{
	"values.yaml": "message: hello\n",
	"templates/cm.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  message: {{ .Values.message | quote }}
`,
}

func TestReleasesOfOtherHelmOperatorsAreTakenOver(t *testing.T) {
	e := sideBySide(t)
	k := e.OpenKind(e.Chart("plain", plainChart))
	finalizers := map[string]string{"classic": "helm.sdk.operatorframework.io/uninstall-release", "plugins": "uninstall-helm-release"}
	versions := map[string]string{}
	for name, finalizer := range finalizers {
		inherited(t, e, k, name, finalizer)
		inherited(t, e, k, name+"-gone", finalizer)
		if err := e.Client.Delete(e.Ctx, k.Named(name+"-gone")); err != nil {
			t.Fatal(err)
		}
		versions[name] = string(e.Object("v1", "ConfigMap", name).GetUID())
	}
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k)})
	for name := range finalizers {
		st := k.WaitReady(name)
		e.WantHistory(name, "1:deployed")
		if st.Revision != 1 || st.AppliedDigest == "" || len(st.History) != 1 {
			t.Errorf("status of %s: %+v", name, st)
		}
		obj, _ := k.Get(name)
		if got := strings.Join(obj.GetFinalizers(), " "); got != "uninstall-helm-release" {
			t.Errorf("finalizers of %s: %s", name, got)
		}
		if _, shown, _ := unstructured.NestedMap(obj.Object, "status", "deployedRelease"); shown {
			t.Errorf("the status of %s still holds the manifest", name)
		}
		secret := e.Object("v1", "Secret", "sh.helm.release.v1."+name+".v1")
		if refs := secret.GetOwnerReferences(); len(refs) > 0 {
			t.Errorf("the release Secret of %s is still owned: %v", name, refs)
		}
		if string(e.Object("v1", "ConfigMap", name).GetUID()) != versions[name] {
			t.Errorf("the object of %s was made anew", name)
		}
		k.WaitGone(name + "-gone")
		e.WantHistory(name+"-gone", "")
		e.WaitObjectGone("v1", "ConfigMap", name+"-gone")
		k.Patch(name, `{"spec":{"message":"mine"}}`)
		message(t, e, name, "mine")
		waitHistory(e, name, "1:superseded 2:deployed")
		k.Delete(name)
		e.WaitObjectGone("v1", "ConfigMap", name)
	}
}
