// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// dnsManifest is what the cluster's DNS consists of.
//
//go:embed coredns.yaml
var dnsManifest []byte

// startDNS creates the cluster's DNS and waits until it answers.
func (c *Cluster) startDNS(ctx context.Context) error {
	for document := range bytes.SplitSeq(dnsManifest, []byte("\n---\n")) {
		if err := c.create(ctx, document); err != nil {
			return fmt.Errorf("create the cluster's DNS: %w", err)
		}
	}
	return supervise.WaitFor(ctx, "the cluster's DNS", func(ctx context.Context) error {
		deployment, err := c.client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range deployment.Status.Conditions {
			if condition.Type == appsv1.DeploymentAvailable && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("the Deployment coredns is not Available: %d of %d Pods are ready",
			deployment.Status.ReadyReplicas, deployment.Status.Replicas)
	})
}

// create creates one object of the DNS manifest.
func (c *Cluster) create(ctx context.Context, document []byte) error {
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
	if err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	var options metav1.CreateOptions
	switch object := object.(type) {
	case *corev1.ServiceAccount:
		_, err = c.client.CoreV1().ServiceAccounts(object.Namespace).Create(ctx, object, options)
	case *corev1.ConfigMap:
		_, err = c.client.CoreV1().ConfigMaps(object.Namespace).Create(ctx, object, options)
	case *corev1.Service:
		_, err = c.client.CoreV1().Services(object.Namespace).Create(ctx, object, options)
	case *appsv1.Deployment:
		_, err = c.client.AppsV1().Deployments(object.Namespace).Create(ctx, object, options)
	case *rbacv1.ClusterRole:
		_, err = c.client.RbacV1().ClusterRoles().Create(ctx, object, options)
	case *rbacv1.ClusterRoleBinding:
		_, err = c.client.RbacV1().ClusterRoleBindings().Create(ctx, object, options)
	default:
		return fmt.Errorf("the manifest holds a %s, which nothing here creates", kind.Kind)
	}
	return err
}
