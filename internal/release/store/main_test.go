// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/chartgate/chartgate/internal/identity"
	"github.com/chartgate/chartgate/test/controlplane"
)

func TestMain(m *testing.M) { os.Exit(controlplane.Main(m, controlplane.Options{AuditLog: true})) }

// operator is a store on the real API server, with its own user agent.
type operator struct {
	*Store
	agent string

	mu    sync.Mutex
	woken []string
}

func newOperator(t *testing.T, config *rest.Config, agent string, namespaces ...string) *operator {
	t.Helper()
	config = rest.CopyConfig(config)
	config.UserAgent = agent
	config.QPS = -1
	o := &operator{agent: agent}
	o.Store = New(t.Context(), identity.NewPool(config), namespaces, logr.Discard(), func(ns, name string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.woken = append(o.woken, ns+"/"+name)
	})
	return o
}

func (o *operator) wokenCount(release string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, w := range o.woken {
		if w == release {
			n++
		}
	}
	return n
}

func (o *operator) driver(t *testing.T, namespace string, options Options) *Driver {
	t.Helper()
	d, err := o.Driver(t.Context(), identity.Operator, namespace, options)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// requests returns how many requests for Secrets with the verbs the operator has made.
func (o *operator) requests(t *testing.T, since time.Time, verbs ...string) int {
	t.Helper()
	events, err := controlplane.Shared(t).AuditEvents(t.Context(), controlplane.ByUserAgent(o.agent),
		controlplane.ByResource("secrets"), controlplane.ByVerb(verbs...), controlplane.Since(since))
	if err != nil {
		t.Fatal(err)
	}
	return len(events)
}

func admin(t *testing.T) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(controlplane.Shared(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// partsIn returns the part Secrets in a namespace.
func partsIn(t *testing.T, namespace string) []corev1.Secret {
	t.Helper()
	list, err := admin(t).CoreV1().Secrets(namespace).List(context.Background(), metav1.ListOptions{LabelSelector: "owner=chartgate"})
	must(t, err)
	return list.Items
}

var errNotYet = errors.New("not yet")
