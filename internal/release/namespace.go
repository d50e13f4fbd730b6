// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// lacksNamespace tells whether what the release is stored in does not exist. That
// shows in the answer to the first thing that is created there, so it takes no
// right to look at namespaces.
func (s *Session) lacksNamespace(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.ErrStatus.Details
	return details != nil && details.Kind == "namespaces" && details.Name == s.change.Namespace
}

// makeNamespace makes the release's namespace as the identity, if the settings say
// so, and notes for whom. It stays when the release goes: others may have moved in.
func (s *Session) makeNamespace() error {
	name := s.change.Namespace
	if !s.change.Settings.CreateNamespace {
		return fmt.Errorf("namespace %s does not exist; create it (kubectl create namespace %[1]s), or set spec.createNamespace: true", name)
	}
	owner := s.change.owner()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		v1alpha1.AnnotationCreatedFor: strings.ToLower(owner.GroupKind.String()) + " " + owner.NamespacedName.String(),
	}}}
	_, err := s.clients.Kubernetes.CoreV1().Namespaces().Create(s.ctx, ns, metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s (kubectl create namespace %[1]s does it, too): %w", name, err)
	}
	return nil
}
