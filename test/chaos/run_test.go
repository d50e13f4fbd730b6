// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/internal/app"
	"github.com/chartgate/chartgate/test/harness"
)

const (
	// name of the one resource of a run, and of its release.
	name = "one"
	// quiet is how long an operator makes no request when it is through.
	quiet = 500 * time.Millisecond
)

// run is one resource in a namespace of its own, and the operator that serves it.
type run struct {
	*harness.Env
	kind    *harness.Kind
	proxy   *harness.Proxy
	process *harness.Process
}

// newRun starts an operator for a namespace that is made for the test.
func newRun(t *testing.T, kind *harness.Kind, args ...string) *run {
	t.Helper()
	e := harness.New(t)
	r := &run{Env: e, kind: kind.In(e), proxy: e.StartProxy()}
	e.Cleanup(r.tidy)
	r.process = r.start(r.proxy, args...)
	e.Cleanup(r.explain)
	return r
}

// start starts a further operator for the namespace, behind the proxy.
func (r *run) start(proxy *harness.Proxy, args ...string) *harness.Process {
	r.Helper()
	return r.StartProcess(harness.ProcessOptions{
		Watches: harness.Watches(r.kind), Config: proxy.Config(),
		Env:  []string{app.WatchNamespaceEnv + "=" + r.Namespace},
		Args: append([]string{"--reconcile-period", "1h"}, args...), // nothing ends well by looking again some time
	})
}

// tidy leaves nothing that keeps the namespace from going, or that is outside of it.
func (r *run) tidy() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	err := errors.Join(
		client.IgnoreNotFound(r.Client.Patch(ctx, r.kind.Named(name), patch)),
		client.IgnoreNotFound(r.Kube.RbacV1().ClusterRoles().Delete(ctx, r.Namespace+"-"+name, metav1.DeleteOptions{})),
	)
	if err != nil {
		r.Logf("tidy up: %v", err)
	}
}

// explain shows the history and what the operator wrote, if the test failed.
func (r *run) explain() {
	if r.Failed() {
		r.Logf("history %q; last writes of the operator:\n  %s", r.Statuses(name), strings.Join(r.writes(), "\n  "))
	}
}

// create, update and remove are what the user does.
func (r *run) create(s spec) { r.kind.Create(name, s.values()) }

func (r *run) update(s spec) {
	r.Helper()
	obj := r.kind.Named(name)
	if err := r.Client.Get(r.Ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		r.Fatal(err)
	}
	before := obj.DeepCopy()
	obj.Object["spec"] = s.values()
	if err := r.Client.Patch(r.Ctx, obj, client.MergeFrom(before)); err != nil {
		r.Fatal(err)
	}
}

func (r *run) remove() {
	r.Helper()
	if err := r.Client.Delete(r.Ctx, r.kind.Named(name)); err != nil {
		r.Fatal(err)
	}
}

// settle waits until the operator makes no more requests, and forgets them.
func (r *run) settle() {
	r.Helper()
	r.waitQuiet()
	r.proxy.Reset()
}

func (r *run) waitQuiet() {
	r.Helper()
	r.Eventually("the operator comes to rest", func() error {
		if q := r.proxy.Quiet(); q < quiet {
			return fmt.Errorf("its last request was %s ago", q)
		}
		return nil
	})
}

// key names a write in the same way in every namespace.
func (r *run) key(w harness.Request) string {
	return strings.ReplaceAll(w.String(), r.Namespace, "ns")
}

func isWrite(w harness.Request) bool { return w.Write() && !w.Housekeeping() }

// isReleaseSecret tells whether the write is that of a revision.
func isReleaseSecret(w harness.Request) bool {
	return isWrite(w) && w.Resource == "secrets" && strings.HasPrefix(w.Name, "sh.helm.release.v1.")
}

// isRollback tells whether the write is that of the revision by which a failed
// upgrade of a first revision is rolled back.
func isRollback(w harness.Request) bool {
	return isReleaseSecret(w) && w.Verb == "create" && strings.HasSuffix(w.Name, ".v3")
}

// isExtra tells whether the write is that of the object which only extra makes.
func isExtra(w harness.Request) bool {
	return isWrite(w) && w.Resource == "configmaps" && w.Name == name+"-extra"
}

// writes are what the operator wrote, by key.
func (r *run) writes() []string {
	var out []string
	for _, w := range r.proxy.Requests(isWrite) {
		out = append(out, r.key(w))
	}
	return out
}

// moment is a write of the operator: the n-th from now on that matches, before
// it is forwarded or when it is done and the operator does not know.
type moment struct {
	n       int
	after   bool
	matches func(harness.Request) bool
}

// hook returns a hook that strikes at the moment. The operator gets no response.
func (m moment) hook(strike func()) func(harness.Request) harness.Action {
	return func(w harness.Request) harness.Action {
		if !isWrite(w) || !m.matches(w) {
			return harness.Forward()
		}
		if m.n--; m.n != 0 {
			return harness.Forward()
		}
		if m.after {
			return harness.DropResponse(strike)
		}
		strike()
		return harness.Drop()
	}
}

// trip is the death of an operator.
type trip struct {
	reached atomic.Bool
	dead    chan struct{} // closed when the operator is gone
}

// killAt has the operator killed at the moment.
func (r *run) killAt(m moment) *trip {
	t := &trip{dead: make(chan struct{})}
	process := r.process
	hook := m.hook(func() {
		t.reached.Store(true)
		process.Kill()
		close(t.dead)
	})
	r.proxy.OnWrite(func(w harness.Request) harness.Action {
		if t.reached.Load() {
			return harness.Drop() // of the dead
		}
		return hook(w)
	})
	return t
}

// await waits for the death. It returns false if the operator is through
// without having come to the write; then it is killed at rest.
func (r *run) await(t *trip, done func() error) bool {
	r.Helper()
	r.Eventually("the write at which the operator dies", func() error {
		select {
		case <-t.dead:
			return nil
		default:
		}
		if t.reached.Load() {
			return errors.New("the operator is dying")
		}
		if err := done(); err != nil {
			return fmt.Errorf("it did not come to it, and is not through: %w", err)
		}
		if r.proxy.Quiet() < quiet || t.reached.Load() {
			return errors.New("it did not come to it yet")
		}
		return nil
	})
	if t.reached.Load() {
		<-t.dead
		return true
	}
	r.process.Kill()
	return false
}

// restart starts the next operator, and nothing is in its way.
func (r *run) restart() {
	r.Helper()
	r.proxy.OnWrite(nil)
	r.proxy.Reset()
	if err := r.process.Start(); err != nil {
		r.Fatal(err)
	}
}

// converge waits until the end that is wanted is reached, and stays.
func (r *run) converge(done func() error) {
	r.Helper()
	r.Eventually("the next operator gets to the end", func() error {
		if err := done(); err != nil {
			return err
		}
		if r.absent() != nil && len(r.proxy.Requests(r.looked)) == 0 {
			return errors.New("the next operator did not look yet")
		}
		return nil
	})
	r.waitQuiet()
	if err := done(); err != nil {
		r.Errorf("it was well, and no longer is: %v", err)
	}
}

// looked tells whether a request shows that an operator is at work in the namespace.
func (r *run) looked(req harness.Request) bool {
	return req.Namespace == r.Namespace && req.Verb != "watch" && !req.Housekeeping()
}
