// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestDiesDuringHook has the operator die while it waits for a hook that does
// not end by itself, by SIGKILL and by SIGTERM.
func TestDiesDuringHook(t *testing.T) {
	t.Parallel()
	kind := newKind(t)
	hooked := func(hook string) spec { return spec{message: "second", extra: true, hook: hook} }
	cases := map[string]struct {
		before *spec
		hook   string
		delete bool
	}{
		"pre-install":  {nil, "pre-install", false},
		"post-install": {nil, "post-install", false},
		"pre-upgrade":  {&first, "pre-upgrade", false},
		"post-upgrade": {&first, "post-upgrade", false},
		"pre-delete":   {nil, "pre-delete", true},
		"post-delete":  {nil, "post-delete", true},
	}
	deaths := map[string]func(*testing.T, *run){
		"killed": func(_ *testing.T, r *run) { r.process.Kill() },
		"stopped": func(t *testing.T, r *run) {
			if code := r.process.Stop(); code != 0 {
				t.Errorf("the operator ended with %d", code)
			}
		},
	}
	plan(len(cases) * len(deaths))
	for what, c := range cases {
		for how, die := range deaths {
			t.Run(what+" "+how, func(t *testing.T) {
				t.Parallel()
				finish(t)
				takeSlot(t)
				r := newRun(t, kind)
				s := hooked(c.hook)
				done := func() error { return r.ready(s) }
				switch {
				case c.delete:
					install(s)(r)
					r.remove()
					done = r.gone
				case c.before != nil:
					install(*c.before)(r)
					r.update(s)
				default:
					r.create(s)
					done = func() error { return r.installed(s) }
				}
				r.WaitObject("batch/v1", "Job", name+"-hook", nil)
				r.waitQuiet()
				die(t, r)
				left := r.Statuses(name)
				r.restart()
				r.converge(func() error { return errors.Join(r.endHook(), done()) })
				t.Logf("history when it died %q, at the end %q", left, r.Statuses(name))
			})
		}
	}
}

// endHook lets the hook's Job go, if it is there.
func (r *run) endHook() error {
	_, err := r.Kube.BatchV1().Jobs(r.Namespace).Patch(r.Ctx, name+"-hook", types.MergePatchType,
		[]byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
