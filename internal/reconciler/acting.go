// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/identity"
	"github.com/chartgate/chartgate/internal/release"
)

// acting settles who serves the resources of a kind.
type acting struct {
	// account of a resource's namespace that serves it where it names none. Empty: the operator.
	account string
	// core asks about ServiceAccounts and namespaces, as the operator.
	core corev1client.CoreV1Interface
}

// as returns who serves the resource: the ServiceAccount of its own namespace
// that it names, else the kind's. What can't be read is an error, and nobody.
func (a acting) as(obj *unstructured.Unstructured, declared bool) (identity.Identity, error) {
	name := a.account
	if declared {
		own, _, err := unstructured.NestedString(obj.Object, "spec", v1alpha1.ReleaseField, "serviceAccountName")
		if err != nil {
			return identity.Identity{}, &stallError{reason: v1alpha1.ReasonInvalidValues, err: fmt.Errorf("spec.release.serviceAccountName: %w", err)}
		}
		name = cmp.Or(own, name)
	}
	if name == "" {
		return identity.Operator, nil
	}
	id, err := identity.ServiceAccount(obj.GetNamespace(), name)
	if err != nil {
		return identity.Identity{}, &stallError{reason: v1alpha1.ReasonInvalidValues, err: fmt.Errorf("spec.release.serviceAccountName: %w", err)}
	}
	return id, nil
}

const (
	// maxMissing is how many missing rights are told at a time.
	maxMissing = 8
	// maxRemedy is how long commands may be together: a message that is cut has none of use.
	maxRemedy = 640
)

// explain says what right is missing, how to give it, and what text, which is
// the error's, tells besides. It returns the text where none is.
func (a acting) explain(ctx context.Context, id identity.Identity, err error, text string) string {
	missing := identity.Denials(err)
	if len(missing) == 0 {
		return text
	}
	missing = missing[:min(len(missing), maxMissing)]
	refused := "; refused: " + identity.Plain(text, err)
	if i := slices.IndexFunc(missing, identity.Denied.Impersonation); i >= 0 {
		return fmt.Sprintf("the operator (%s) may not act as ServiceAccounts of namespace %s; add to its role: {apiGroups: [\"\"], resources: [serviceaccounts], verbs: [impersonate]}",
			missing[i].User, missing[i].Namespace) + refused
	}
	return identity.Sentence(missing) + "; " + a.remedy(ctx, id, err, missing) + refused
}

// remedy says how to give what is missing.
func (a acting) remedy(ctx context.Context, id identity.Identity, err error, missing []identity.Denied) string {
	verbs := release.Verbs(err)
	if id.IsOperator() {
		rules := make([]string, 0, len(missing))
		for _, d := range missing {
			rules = append(rules, d.Rule(verbs))
		}
		return "add to the operator's role: " + strings.Join(rules, ", ")
	}
	grants := id.Grants(missing, verbs)
	remedy := "grant it: " + grants[0]
	for _, more := range grants[1:] {
		if len(remedy)+len(more) < maxRemedy {
			remedy += " && " + more
		}
	}
	if !a.exists(ctx, id) {
		return fmt.Sprintf("ServiceAccount %s does not exist in namespace %s: create it (kubectl create serviceaccount %[1]s -n %[2]s), or correct spec.release.serviceAccountName; then %s",
			id.ServiceAccount, id.Namespace, remedy)
	}
	return remedy
}

// exists tells whether the ServiceAccount exists, as far as can be told.
func (a acting) exists(ctx context.Context, id identity.Identity) bool {
	_, err := a.core.ServiceAccounts(id.Namespace).Get(ctx, id.ServiceAccount, metav1.GetOptions{})
	return !apierrors.IsNotFound(err)
}

// going tells whether the namespace is being deleted, with all that is in it.
func (a acting) going(ctx context.Context, namespace string) bool {
	ns, err := a.core.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && ns.DeletionTimestamp != nil
}

// powerless tells whether an uninstall failed since who serves the resource is
// nobody, or has lost its rights: nothing that the operator may do mends that.
func (r *Reconciler) powerless(req *Request, err error) bool {
	return req.Nobody || !req.Identity.IsOperator() && len(identity.Denials(err)) > 0
}

// patience is how long an uninstall is tried yet that whoever serves the resource has no right to.
func (r *Reconciler) patience(ctx context.Context, req *Request) time.Duration {
	deleted := req.Object.GetDeletionTimestamp()
	if deleted == nil {
		return lastRetry
	}
	own := req.Object.GetNamespace()
	if (req.Change.Namespace == "" || req.Change.Namespace == own) && r.acting.going(ctx, own) {
		return 0 // roles may go before what they are needed for, and the release goes with the namespace
	}
	return max(deleted.Add(r.change.settings(req).Timeout).Sub(r.clock.Now()), 0)
}

// maxListed bounds how many objects an event names.
const maxListed = 20

// abandon lets go of a resource whose release nobody may remove, and tells what is left: the release as it is stored,
// and its objects, of which the cluster's garbage collector removes those that the resource owns.
func (r *Reconciler) abandon(ctx context.Context, req *Request, cause error) (reconcile.Result, error) {
	var objects []string
	if req.Change.Name != "" {
		var err error
		if objects, err = r.engine.Remaining(ctx, req.Change); err != nil {
			log.FromContext(ctx).Info("What is left of a release that is given up can't be told", "release", req.Change.Name, "reason", oneLine(err))
		}
	}
	if extra := len(objects) - maxListed; extra > 0 {
		objects = append(objects[:maxListed], fmt.Sprintf("and %d more", extra))
	}
	what := "its objects"
	if len(objects) > 0 {
		what = strings.Join(objects, ", ")
	}
	if err := r.letGo(ctx, req); err != nil {
		return reconcile.Result{}, err
	}
	r.event(req, eventWarning, v1alpha1.EventReleaseOrphaned, "release %s could not be uninstalled and stays in namespace %s with %s (Kubernetes removes those that have the resource as owner): %s",
		cmp.Or(req.Change.Name, req.Status.ReleaseName, req.Object.GetName()),
		cmp.Or(req.Change.Namespace, req.Status.ReleaseNamespace, req.Object.GetNamespace()), what, r.explain(ctx, req, cause))
	r.forget(req)
	return reconcile.Result{}, nil
}
