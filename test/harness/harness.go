// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness runs the operator against a real control plane for tests:
// charts and kinds made for one test, managers that start and stop, objects
// read back, conditions waited for.
package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/chartgate/chartgate/internal/app"
	"github.com/chartgate/chartgate/test/controlplane"
)

// Wait is how long a condition may take to come true. Machines are slow and
// shared; a test fails by its condition, not by this.
const Wait = 60 * time.Second

// Env is one test's view of the shared control plane.
type Env struct {
	testing.TB
	Ctx     context.Context
	Cluster *controlplane.Cluster
	Config  *rest.Config
	Client  client.Client
	Kube    kubernetes.Interface
	// Namespace of this test alone.
	Namespace string
}

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

// New returns an Env with a namespace of its own on the package's control plane.
func New(t testing.TB) *Env {
	t.Helper()
	cluster := controlplane.Shared(t)
	cfg := cluster.Config()
	cfg.UserAgent = "test"
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &Env{TB: t, Ctx: t.Context(), Cluster: cluster, Config: cfg, Client: c, Kube: kube, Namespace: cluster.Namespace(t)}
}

// Chart writes a chart to a folder of the test and returns its path. Chart.yaml
// is made where the files don't hold it.
func (e *Env) Chart(name string, files map[string]string) string {
	e.Helper()
	dir := filepath.Join(e.TempDir(), name)
	if _, ok := files["Chart.yaml"]; !ok {
		e.WriteFile(filepath.Join(dir, "Chart.yaml"), "apiVersion: v2\nname: "+name+"\nversion: 0.1.0\nappVersion: \"1.0\"\n")
	}
	for path, content := range files {
		e.WriteFile(filepath.Join(dir, path), content)
	}
	return dir
}

// WriteFile writes a file, and the folders above it.
func (e *Env) WriteFile(path, content string) {
	e.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		e.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		e.Fatal(err)
	}
}

// Manager is a running operator.
type Manager struct {
	env     *Env
	args    []string
	config  *rest.Config
	cancel  context.CancelFunc
	done    chan int
	stderr  *lockedBuffer
	watches string
}

// ManagerOptions of a test's operator.
type ManagerOptions struct {
	// Watches is the content of watches.yaml.
	Watches string
	// Namespaces that it serves. Default: all, so that its kinds have to be this test's alone.
	Namespaces []string
	// Args are further flags.
	Args []string
	// Config of the API server. Default: the control plane's administrator.
	Config *rest.Config
}

// StartManager starts the operator in this process. It stops with the test.
func (e *Env) StartManager(o ManagerOptions) *Manager {
	e.Helper()
	m := &Manager{env: e, config: o.Config, watches: filepath.Join(e.TempDir(), "watches.yaml")}
	if m.config == nil {
		m.config = e.Cluster.Config()
	}
	e.WriteFile(m.watches, o.Watches)
	m.args = append([]string{
		"--watches-file", m.watches, "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
		"--max-concurrent-reconciles", "4",
		"--watch-namespaces", strings.Join(o.Namespaces, ","),
	}, o.Args...)
	m.Start()
	e.Cleanup(func() { m.Stop() })
	return m
}

// LogEnv names the environment variable that sets the operators' log level in
// tests: "info" or "debug". Without it they log nothing.
const LogEnv = "CHARTGATE_TEST_LOG"

// Logger returns the logger for the operators of a test binary.
func Logger() logr.Logger {
	level, ok := os.LookupEnv(LogEnv)
	if !ok {
		return logr.Discard()
	}
	if level == "debug" {
		return zap.New(zap.UseDevMode(true), zap.Level(zapcore.Level(-2)))
	}
	return zap.New(zap.UseDevMode(true), zap.Level(zapcore.InfoLevel))
}

// Start starts a stopped operator again.
func (m *Manager) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel, m.done, m.stderr = cancel, make(chan int, 1), &lockedBuffer{}
	go func(done chan int, stderr *lockedBuffer) { done <- app.Run(ctx, m.config, m.args, stderr) }(m.done, m.stderr)
}

// Stop stops the operator and fails the test if it did not end well.
func (m *Manager) Stop() {
	if m.cancel == nil {
		return
	}
	m.cancel()
	m.cancel = nil
	select {
	case code := <-m.done:
		if code != 0 {
			m.env.Errorf("the manager ended with %d: %s", code, m.stderr)
		}
	case <-time.After(Wait):
		m.env.Errorf("the manager did not stop within %s", Wait)
	}
}

// lockedBuffer is a buffer that several goroutines may write.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Eventually waits until the check returns nil, and fails the test with its
// last error if it never does.
func (e *Env) Eventually(what string, check func() error) {
	e.Helper()
	deadline := time.Now().Add(Wait)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			e.Fatalf("%s: %v", what, err)
		}
		select {
		case <-e.Ctx.Done():
			e.Fatalf("%s: %v", what, e.Ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Name returns a name that no other test uses.
func Name(prefix string) string { return prefix + rand.String(6) }

// title makes the first letter a capital one.
func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// Watches returns a watches.yaml for the kinds, from kind to chart folder.
func Watches(kinds ...*Kind) string {
	var b strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&b, "- group: %s\n  version: %s\n  kind: %s\n  chart: %s\n%s", k.Group, k.Version, k.Kind, k.Chart, k.Extra)
	}
	return b.String()
}

// Never fails the test if the check returns an error within the time.
func (e *Env) Never(what string, within time.Duration, check func() error) {
	e.Helper()
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		if err := check(); err != nil {
			e.Fatalf("%s: %v", what, err)
		}
		select {
		case <-e.Ctx.Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}
