// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	helmrelease "helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// hookPoll is how often a hook is read that can't be watched.
const hookPoll = 2 * time.Second

// hooks runs the hooks of a release, as Helm does: by weight, one after the
// other, each waited for until its Job or Pod is through. They end with the
// context, which bounds the action they belong to.
type hooks struct {
	session  *Session
	ctx      context.Context
	disabled bool
	// trusted is false where the hooks are not known to be Chartgate's: they are
	// run in the owner's namespace only then.
	trusted bool
}

// run runs the hooks of one event.
func (h hooks) run(rel *helmrelease.Release, event helmrelease.HookEvent) error {
	if h.disabled {
		return nil
	}
	var due []*helmrelease.Hook
	for _, hook := range rel.Hooks {
		if slices.Contains(hook.Events, event) {
			due = append(due, hook)
		}
	}
	sort.SliceStable(due, func(i, j int) bool {
		if due[i].Weight != due[j].Weight {
			return due[i].Weight < due[j].Weight
		}
		return due[i].Name < due[j].Name
	})
	for i, hook := range due {
		if len(hook.DeletePolicies) == 0 {
			hook.DeletePolicies = []helmrelease.HookDeletePolicy{helmrelease.HookBeforeHookCreation}
		}
		hook.LastRun = helmrelease.HookExecution{StartedAt: helmNow(), Phase: helmrelease.HookPhaseRunning}
		err := h.runOne(hook)
		hook.LastRun.CompletedAt, hook.LastRun.Phase = helmNow(), helmrelease.HookPhaseSucceeded
		if err != nil {
			hook.LastRun.Phase = helmrelease.HookPhaseFailed
			err = fmt.Errorf("%s hook %s: %w", event, hook.Path, err)
			return errors.Join(append([]error{err}, h.clean(due[:i], hook)...)...)
		}
	}
	for _, hook := range slices.Backward(due) {
		if err := h.delete(hook, helmrelease.HookSucceeded); err != nil {
			return err
		}
	}
	return nil
}

// clean deletes what the policies say after a hook failed.
func (h hooks) clean(succeeded []*helmrelease.Hook, failed *helmrelease.Hook) []error {
	if h.ctx.Err() != nil {
		return nil // out of time: the next try deletes before it creates
	}
	var errs []error
	if err := h.delete(failed, helmrelease.HookFailed); err != nil {
		errs = append(errs, err)
	}
	for _, hook := range succeeded {
		if err := h.delete(hook, helmrelease.HookSucceeded); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (h hooks) runOne(hook *helmrelease.Hook) error {
	if err := h.delete(hook, helmrelease.HookBeforeHookCreation); err != nil {
		return err
	}
	objects, err := h.objects(hook)
	if err != nil {
		return err
	}
	a := h.session.applier(h.ctx, true)
	for _, o := range objects {
		if _, err := a.create(o); err != nil {
			return err
		}
		if err := h.wait(o); err != nil {
			return err
		}
	}
	return nil
}

// objects returns what a hook makes.
func (h hooks) objects(hook *helmrelease.Hook) ([]object, error) {
	parsed, err := parseManifest(strings.NewReader(hook.Manifest))
	if err != nil {
		return nil, terminal(CauseRender, err)
	}
	objects := make([]object, 0, len(parsed))
	for _, obj := range parsed {
		o, err := h.session.locate(obj)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	if !h.trusted {
		objects = h.session.within(objects)
	}
	return objects, nil
}

// delete deletes a hook's objects if its policies name the occasion, and waits
// until they are gone. CRDs are never deleted, since all their objects would go with them.
func (h hooks) delete(hook *helmrelease.Hook, occasion helmrelease.HookDeletePolicy) error {
	if hook.Kind == "CustomResourceDefinition" || !slices.Contains(hook.DeletePolicies, occasion) {
		return nil
	}
	objects, err := h.objects(hook)
	if err != nil {
		return err
	}
	a := h.session.applier(h.ctx, false)
	background := metav1.DeletePropagationBackground
	for _, o := range objects {
		err := a.resource(o).Delete(h.ctx, o.obj.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("delete hook %s: %w", o, err)
		}
		live, err := a.get(o)
		if err != nil {
			return err
		}
		if live != nil {
			if err := a.waitGone(o, string(live.GetUID())); err != nil {
				return err
			}
		}
	}
	return nil
}

// wait waits until a Job or Pod is through. Other kinds are through when they
// exist. Where the identity may not list, the object is read again and again.
func (h hooks) wait(o object) error {
	gk := o.mapping.GroupVersionKind.GroupKind()
	var through func(*unstructured.Unstructured) (bool, error)
	switch {
	case gk.Group == "batch" && gk.Kind == "Job":
		through = jobThrough
	case gk.Group == "" && gk.Kind == "Pod":
		through = podThrough
	default:
		return nil
	}
	refused, err := h.watch(h.ctx, o, through)
	if refused {
		err = h.poll(h.ctx, o, through)
	}
	if err != nil && h.ctx.Err() != nil {
		return fmt.Errorf("%s is not through: %w", o, h.ctx.Err())
	}
	return err
}

// watch watches the object until it is through, and tells whether that was refused.
func (h hooks) watch(ctx context.Context, o object, through func(*unstructured.Unstructured) (bool, error)) (refused bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resource := h.session.applier(ctx, false).resource(o)
	selector := fields.OneTermEqualSelector("metadata.name", o.obj.GetName()).String()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			opts.FieldSelector = selector
			list, err := resource.List(ctx, opts)
			if apierrors.IsForbidden(err) {
				cancel(err) // asked again and again otherwise, until the time is over
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.FieldSelector = selector
			return resource.Watch(ctx, opts)
		},
	}
	_, err = watchtools.UntilWithSync(ctx, lw, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		obj, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Deleted {
			return false, gone(o)
		}
		return judge(o, obj, through)
	})
	return apierrors.IsForbidden(context.Cause(ctx)), err
}

// poll reads the object until it is through.
func (h hooks) poll(ctx context.Context, o object, through func(*unstructured.Unstructured) (bool, error)) error {
	return wait.PollUntilContextCancel(ctx, hookPoll, true, func(ctx context.Context) (bool, error) {
		obj, err := h.session.applier(ctx, false).get(o)
		if err != nil {
			return false, err
		}
		if obj == nil {
			return false, gone(o)
		}
		return judge(o, obj, through)
	})
}

func gone(o object) error { return fmt.Errorf("%s was deleted before it was through", o) }

func judge(o object, live *unstructured.Unstructured, through func(*unstructured.Unstructured) (bool, error)) (bool, error) {
	done, err := through(live)
	if err != nil {
		return false, fmt.Errorf("%s %w", o, err)
	}
	return done, nil
}

func jobThrough(job *unstructured.Unstructured) (bool, error) {
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		if m["status"] != "True" {
			continue
		}
		switch m["type"] {
		case "Complete":
			return true, nil
		case "Failed":
			return false, fmt.Errorf("failed: %v: %v", m["reason"], m["message"])
		}
	}
	return false, nil
}

func podThrough(pod *unstructured.Unstructured) (bool, error) {
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	switch phase {
	case "Succeeded":
		return true, nil
	case "Failed":
		message, _, _ := unstructured.NestedString(pod.Object, "status", "message")
		return false, fmt.Errorf("failed: %s", message)
	}
	return false, nil
}
