// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/test/controlplane/olm"
	"github.com/chartgate/chartgate/test/e2e/images"
)

const (
	packageName    = "chartgate"
	catalogName    = "chartgate"
	deploymentName = "chartgate-controller-manager"
	apiGroup       = "apps.chartgate.dev"
	crdGuestbooks  = "guestbooks." + apiGroup
)

// operator is one installation by OLM.
type operator struct{ namespace string }

// subscribe makes the operator's namespace with its OperatorGroup and asks for
// the operator. No targets stand for all namespaces.
func subscribe(t *testing.T, namespace string, subscription olm.Subscription, targets ...string) operator {
	t.Helper()
	o := operator{namespace}
	must(t, env.olm.Namespace(t.Context(), namespace, map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted",
	}))
	must(t, env.olm.OperatorGroup(t.Context(), namespace, targets...))
	o.subscribe(t, subscription)
	t.Cleanup(func() { o.clean(t) })
	return o
}

func (o operator) subscribe(t *testing.T, subscription olm.Subscription) {
	t.Helper()
	subscription.Namespace, subscription.Package = o.namespace, packageName
	subscription.Source, subscription.SourceNamespace = catalogName, olm.SystemNamespace
	if subscription.Channel == "" {
		subscription.Channel = "stable"
	}
	must(t, env.olm.Subscribe(t.Context(), subscription))
}

// waitInstalled waits until OLM says that the newest version runs.
func (o operator) waitInstalled(t *testing.T) string {
	t.Helper()
	defer step("wait for OLM to install the operator in %s", o.namespace)()
	csv, err := env.olm.WaitInstalled(limited(t), o.namespace, packageName)
	must(t, err)
	return csv
}

// clean removes whatever a test left: resources first, so that the operator
// takes their releases away, then the operator and its kinds.
func (o operator) clean(t *testing.T) {
	if t.Failed() {
		t.Log(env.olm.Diagnose(context.Background(), o.namespace))
		t.Log(o.log(context.Background()))
	}
	defer step("remove the operator of %s and what is left", o.namespace)()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	for _, kind := range []string{"guestbooks", "webapps", "databases", "helmapps", "microservices"} {
		_, err := tryKubectl(ctx, "", "delete", kind, "--all", "--all-namespaces", "--timeout=60s", "--ignore-not-found")
		if err != nil && !strings.Contains(err.Error(), "doesn't have a resource type") {
			t.Error(err)
		}
	}
	if err := client.IgnoreNotFound(errors.Unwrap(env.olm.Remove(ctx, o.namespace, packageName))); err != nil {
		t.Errorf("remove the operator: %v", err)
	}
	var crds apiextensionsv1.CustomResourceDefinitionList
	if err := env.client.List(ctx, &crds); err != nil {
		t.Error(err)
	}
	for i := range crds.Items {
		if crds.Items[i].Spec.Group == apiGroup {
			if err := client.IgnoreNotFound(env.client.Delete(ctx, &crds.Items[i])); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := tryKubectl(ctx, "", "delete", "namespace", o.namespace, "--ignore-not-found"); err != nil {
		t.Error(err)
	}
}

// log returns the end of the operator's log.
func (o operator) log(ctx context.Context) string {
	out, err := tryKubectl(ctx, "", "logs", "-n", o.namespace, "deployment/"+deploymentName, "--tail=40")
	return fmt.Sprintf("log of the operator: %s %v", out, err)
}

// leader returns the identity of the operator's pod that leads.
func (o operator) leader(ctx context.Context, t *testing.T) string {
	t.Helper()
	var leases coordinationv1.LeaseList
	must(t, env.client.List(ctx, &leases, client.InNamespace(o.namespace)))
	for _, l := range leases.Items {
		if strings.HasSuffix(l.Name, "chartgate.dev") && l.Spec.HolderIdentity != nil {
			return *l.Spec.HolderIdentity
		}
	}
	return ""
}

// account is the user name of the operator's ServiceAccount.
func (o operator) account(t *testing.T) string {
	t.Helper()
	name := kubectl(t, "", "get", "deployment", deploymentName, "-n", o.namespace, "-o", "jsonpath={.spec.template.spec.serviceAccountName}")
	return "system:serviceaccount:" + o.namespace + ":" + name
}

// clusterWide are the kinds in no namespace that the operator may use, by resource.
var clusterWide = map[string]bool{
	"namespaces":                        true,
	"tokenreviews":                      true,
	"subjectaccessreviews":              true,
	"validatingadmissionpolicies":       true,
	"validatingadmissionpolicybindings": true,
	"validatingwebhookconfigurations":   true,
	"selfsubjectaccessreviews":          true, // everybody may
	"selfsubjectrulesreviews":           true,
	"selfsubjectreviews":                true,
	"clustertrustbundles":               true,
}

// rightsIn returns what the operator's ServiceAccount may do in a namespace
// to kinds that are not the cluster's own.
func (o operator) rightsIn(t *testing.T, namespace string) []string {
	t.Helper()
	config := rest.CopyConfig(env.cluster.Config())
	config.Impersonate = rest.ImpersonationConfig{
		UserName: o.account(t),
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + o.namespace, "system:authenticated"},
	}
	kube, err := kubernetes.NewForConfig(config)
	must(t, err)
	review, err := kube.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
	must(t, err)
	if review.Status.Incomplete {
		t.Fatalf("the API server does not know all rules: %s", review.Status.EvaluationError)
	}
	var rights []string
	for _, rule := range review.Status.ResourceRules {
		for _, resource := range rule.Resources {
			if !clusterWide[resource] {
				rights = append(rights, fmt.Sprintf("%s %s%v", rule.Verbs, resource, rule.APIGroups))
			}
		}
	}
	return rights
}

// workload returns the manifest of a Guestbook whose images are the tests' own.
func workload(t *testing.T, g guestbook, gates string) string {
	t.Helper()
	frontend, tag, err := images.Split(env.images[images.Frontend])
	must(t, err)
	redis, redisTag, err := images.Split(env.images[images.Redis])
	must(t, err)
	return fmt.Sprintf(`
apiVersion: apps.chartgate.dev/v1alpha1
kind: Guestbook
metadata: {name: %s, namespace: %s}
spec:
  replicaCount: 2
  image: {repository: %q, tag: %q}
  service: {type: ClusterIP, port: 80}
  redis:
    image: {repository: %q, tag: %q}
    follower: {replicaCount: 1}
%s`, g.name, g.namespace, frontend, tag, redis, redisTag, gates)
}

// waitRunning waits until the Guestbook's pods really run.
func (g guestbook) waitRunning(t *testing.T) {
	t.Helper()
	g.waitReady(t)
	eventually(t, "the pods of "+g.name+" run", func(ctx context.Context) error {
		var list corev1.PodList
		if err := env.client.List(ctx, &list, client.InNamespace(g.namespace), client.MatchingLabels{"app.kubernetes.io/instance": g.name}); err != nil {
			return err
		}
		if len(list.Items) < 4 {
			return fmt.Errorf("%d pods", len(list.Items))
		}
		for _, p := range list.Items {
			for _, c := range p.Status.ContainerStatuses {
				if c.State.Running == nil || !c.Ready {
					return fmt.Errorf("pod %s: container %s is not running: %+v", p.Name, c.Name, c.State)
				}
			}
		}
		return nil
	})
}
