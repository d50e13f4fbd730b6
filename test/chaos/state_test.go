// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	helmrelease "helm.sh/helm/v3/pkg/release"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/status"
	"github.com/chartgate/chartgate/test/harness"
)

// spec is what a resource of the kind asks for.
type spec struct {
	message    string
	replicas   int64
	extra, old bool
	hook       string
}

func (s spec) values() map[string]any {
	return map[string]any{
		"message": s.message, "replicas": s.replicas, "extra": s.extra, "old": s.old, "hook": s.hook,
	}
}

// objects are what a release of the spec consists of, in the form of run.objects.
func (s spec) objects() []string {
	out := []string{
		"ClusterRole one message=" + s.message,
		"ConfigMap one message=" + s.message,
		fmt.Sprintf("Deployment one replicas=%d message=%s", s.replicas, s.message),
		"Service one message=" + s.message,
	}
	if s.extra {
		out = append(out, "ConfigMap one-extra message="+s.message)
	}
	if s.old {
		out = append(out, "ConfigMap one-old message="+s.message)
	}
	slices.Sort(out)
	return out
}

// objects lists all there is in the namespace, one line each, and the cluster
// roles that belong to it.
func (r *run) objects() ([]string, error) {
	var (
		out         []string
		configMaps  corev1.ConfigMapList
		services    corev1.ServiceList
		secrets     corev1.SecretList
		deployments appsv1.DeploymentList
		jobs        batchv1.JobList
		roles       rbacv1.ClusterRoleList
	)
	in := client.InNamespace(r.Namespace)
	err := errors.Join(
		r.Client.List(r.Ctx, &configMaps, in), r.Client.List(r.Ctx, &services, in), r.Client.List(r.Ctx, &secrets, in),
		r.Client.List(r.Ctx, &deployments, in), r.Client.List(r.Ctx, &jobs, in), r.Client.List(r.Ctx, &roles),
	)
	if err != nil {
		return nil, err
	}
	add := func(o client.Object, kind, format string, args ...any) {
		line := kind + " " + strings.TrimPrefix(o.GetName(), r.Namespace+"-") + " " + fmt.Sprintf(format, args...)
		out = append(out, line+r.strange(o))
	}
	for i := range configMaps.Items {
		if o := &configMaps.Items[i]; o.Name != "kube-root-ca.crt" {
			add(o, "ConfigMap", "message=%s", o.Data["message"])
		}
	}
	for i := range services.Items {
		o := &services.Items[i]
		add(o, "Service", "message=%s", o.Spec.Selector["message"])
	}
	for i := range secrets.Items {
		if o := &secrets.Items[i]; o.Type != "helm.sh/release.v1" {
			add(o, "Secret", "type=%s", o.Type)
		}
	}
	for i := range deployments.Items {
		o := &deployments.Items[i]
		add(o, "Deployment", "replicas=%d message=%s", *o.Spec.Replicas, o.Spec.Template.Labels["message"])
	}
	for i := range jobs.Items {
		add(&jobs.Items[i], "Job", "suspend=%t", *jobs.Items[i].Spec.Suspend)
	}
	for i := range roles.Items {
		if o := &roles.Items[i]; strings.HasPrefix(o.Name, r.Namespace+"-") {
			add(o, "ClusterRole", "message=%s", strings.Join(o.Rules[0].ResourceNames, ","))
		}
	}
	slices.Sort(out)
	return out, nil
}

// strange says what is wrong with the marks of an object of the release.
func (r *run) strange(o client.Object) string {
	a := o.GetAnnotations()
	switch {
	case o.GetDeletionTimestamp() != nil:
		return " (being deleted)"
	case o.GetLabels()["app.kubernetes.io/managed-by"] != "Helm",
		a["meta.helm.sh/release-name"] != name, a["meta.helm.sh/release-namespace"] != r.Namespace:
		return " (not marked as the release's)"
	case o.GetNamespace() != "" && metav1.GetControllerOf(o) == nil:
		return " (without owner)"
	}
	return ""
}

// wantObjects returns an error unless there are exactly these objects.
func (r *run) wantObjects(want []string) error {
	have, err := r.objects()
	if err != nil {
		return err
	}
	if !slices.Equal(have, want) {
		return fmt.Errorf("objects are\n  %s\nwant\n  %s", strings.Join(have, "\n  "), strings.Join(want, "\n  "))
	}
	return nil
}

// wantSoundHistory returns an error unless the last revision is the one that is
// deployed, with the message, and none is pending.
func (r *run) wantSoundHistory(message string) error {
	history := r.History(name)
	if len(history) == 0 {
		return errors.New("no release")
	}
	for i, rel := range history {
		want := []helmrelease.Status{helmrelease.StatusSuperseded, helmrelease.StatusFailed}
		if i == len(history)-1 {
			want = []helmrelease.Status{helmrelease.StatusDeployed}
		}
		if !slices.Contains(want, rel.Info.Status) {
			return fmt.Errorf("history is %q", r.Statuses(name))
		}
	}
	if got := history[len(history)-1].Config["message"]; got != message {
		return fmt.Errorf("the deployed revision has message %v, want %s", got, message)
	}
	return r.wantHolders()
}

// wantHistory returns an error unless the history is as given.
func (r *run) wantHistory(want string) error {
	if got := r.Statuses(name); got != want {
		return fmt.Errorf("history is %q, want %q", got, want)
	}
	return r.wantHolders()
}

// wantHolders returns an error unless exactly the revisions that something is
// under way with say who holds them.
func (r *run) wantHolders() error {
	secrets, err := r.Kube.CoreV1().Secrets(r.Namespace).List(r.Ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		return err
	}
	for _, s := range secrets.Items {
		state := s.Labels["status"]
		underWay := strings.HasPrefix(state, "pending-") || state == helmrelease.StatusUninstalling.String()
		if holder := s.Labels[v1alpha1.LabelHolder]; underWay != (holder != "") {
			return fmt.Errorf("release Secret %s has status %s and holder %q", s.Name, state, holder)
		}
	}
	return nil
}

// resource reads the resource's status, if the newest generation is observed.
func (r *run) resource() (v1alpha1.CommonStatus, error) {
	obj := r.kind.Named(name)
	if err := r.Client.Get(r.Ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		return v1alpha1.CommonStatus{}, err
	}
	st := status.Read(obj)
	if st.ObservedGeneration != obj.GetGeneration() {
		return st, fmt.Errorf("generation %d is not observed: phase %s, %s", obj.GetGeneration(), st.Phase, harness.Conditions(st))
	}
	return st, nil
}

// ready returns an error unless the resource is ready with what the spec says.
func (r *run) ready(s spec) error {
	st, err := r.resource()
	if err != nil {
		return err
	}
	c := harness.Condition(st, v1alpha1.ConditionReady)
	if c == nil || c.Status != metav1.ConditionTrue || st.Phase != v1alpha1.PhaseDeployed || st.Pending != nil || st.Failures != 0 {
		return fmt.Errorf("not ready: phase %s, pending %v, failures %d, %s", st.Phase, st.Pending, st.Failures, harness.Conditions(st))
	}
	if err := r.wantObjects(s.objects()); err != nil {
		return err
	}
	if err := r.wantSoundHistory(s.message); err != nil {
		return err
	}
	if h := r.History(name); st.Revision != int64(h[len(h)-1].Version) {
		return fmt.Errorf("status has revision %d, history is %s", st.Revision, r.Statuses(name))
	}
	return nil
}

// installed is ready, with a history that shows nothing but the install.
func (r *run) installed(s spec) error {
	if err := r.ready(s); err != nil {
		return err
	}
	return r.wantHistory("1:deployed")
}

// stalled returns an error unless the resource has given the change up, and
// what was released before is released as the spec says.
func (r *run) stalled(released spec) error {
	if err := r.refused(); err != nil {
		return err
	}
	if err := r.wantObjects(released.objects()); err != nil {
		return err
	}
	return r.wantSoundHistory(released.message)
}

// neverInstalled is stalled where nothing was released before.
func (r *run) neverInstalled() error {
	if err := r.refused(); err != nil {
		return err
	}
	if err := r.wantObjects(nil); err != nil {
		return err
	}
	return r.wantHistory("")
}

// refused returns an error unless the resource is stalled for an invalid object.
func (r *run) refused() error {
	st, err := r.resource()
	if err != nil {
		return err
	}
	c := harness.Condition(st, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonInvalidObject || st.Phase != v1alpha1.PhaseDeploymentFailed {
		return fmt.Errorf("not stalled: phase %s, %s", st.Phase, harness.Conditions(st))
	}
	return nil
}

// gone returns an error unless nothing of resource, release and objects is left.
func (r *run) gone() error {
	if err := r.absent(); err != nil {
		return err
	}
	if err := r.wantHistory(""); err != nil {
		return err
	}
	return r.wantObjects(nil)
}

// absent returns an error unless the resource is gone.
func (r *run) absent() error {
	obj := r.kind.Named(name)
	err := r.Client.Get(r.Ctx, client.ObjectKeyFromObject(obj), obj)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	st := status.Read(obj)
	return fmt.Errorf("the resource exists: phase %s, finalizers %v, %s; history %q", st.Phase, obj.GetFinalizers(), harness.Conditions(st), r.Statuses(name))
}
