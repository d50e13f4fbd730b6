// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/chartgate/chartgate/internal/webhook"
)

// WatchNamespaceEnv names the environment variable that says which namespaces
// are watched: empty for all, one, or a comma-separated list. OLM sets it.
const WatchNamespaceEnv = "WATCH_NAMESPACE"

// defaultLeaderElectionID is the lease that replicas compete for.
const defaultLeaderElectionID = "manager.chartgate.dev"

// options of the manager, as the command line gives them.
type options struct {
	watchesFile             string
	watchNamespaces         []string
	reconcilePeriod         time.Duration
	maxConcurrentReconciles int
	timeout                 time.Duration
	defaultServiceAccount   string

	leaderElect             bool
	leaderElectionID        string
	leaderElectionNamespace string

	metricsAddress     string
	metricsSecure      bool
	metricsRequireRBAC bool
	probeAddress       string
	enableHTTP2        bool

	webhookHost    string
	webhookPort    int
	webhookCertDir string

	charts chartOptions

	kubeAPIQPS             float32
	kubeAPIBurst           int
	watchLabelSelector     string
	suppressOverrideValues bool
}

// addFlags declares the flags: those of operator-sdk's Helm operators, with
// their defaults, and a few more.
func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.watchesFile, "watches-file", "./watches.yaml", "File that maps kinds to charts.")
	fs.StringSliceVar(&o.watchNamespaces, "watch-namespaces", nil, "Namespaces whose resources are served, separated by commas. Default: those of $"+WatchNamespaceEnv+", which OLM sets; without either, all.")
	fs.DurationVar(&o.reconcilePeriod, "reconcile-period", time.Minute, "How often a resource is looked at when nothing happens. A watch's reconcilePeriod goes before.")
	fs.IntVar(&o.maxConcurrentReconciles, "max-concurrent-reconciles", runtime.NumCPU(), "How many resources of a kind are reconciled at a time. A watch's maxConcurrentReconciles goes before.")
	fs.DurationVar(&o.timeout, "timeout", 5*time.Minute, "Longest time of one Helm action, hooks included. A resource's spec.release.timeout goes before.")

	fs.StringVar(&o.defaultServiceAccount, "default-service-account", "", "ServiceAccount of a resource's own namespace that serves it where neither the resource nor its watch names one. Default: the operator itself, and ServiceAccount default for charts that are chosen at run time.")

	fs.BoolVar(&o.leaderElect, "leader-elect", false, "Elect a leader, so that only one replica works at a time.")
	fs.StringVar(&o.leaderElectionID, "leader-election-id", defaultLeaderElectionID, "Name of the lease that replicas compete for.")
	fs.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "", "Namespace of the lease. Default: the operator's own; outside a cluster it has to be given.")

	fs.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "Address that metrics are served on; 0 turns them off.")
	fs.BoolVar(&o.metricsSecure, "metrics-secure", false, "Serve metrics by HTTPS.")
	fs.BoolVar(&o.metricsRequireRBAC, "metrics-require-rbac", false, "Serve metrics only to those whom RBAC allows. Needs --metrics-secure.")
	fs.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "Address that /healthz and /readyz are served on.")
	fs.BoolVar(&o.enableHTTP2, "enable-http2", false, "Serve metrics and the webhook by HTTP/2 as well.")

	fs.IntVar(&o.webhookPort, "webhook-port", 0, "Port of the webhook that vouches for who made a ReleaseApproval; 0 turns it off.")
	fs.StringVar(&o.webhookHost, "webhook-host", "", "Address that the webhook is served on. Default: all.")
	fs.StringVar(&o.webhookCertDir, "webhook-cert-dir", webhook.DefaultCertDir, "Folder of the webhook's certificate, tls.crt, and its key, tls.key.")

	o.charts.addFlags(fs)

	fs.Float32Var(&o.kubeAPIQPS, "kube-api-qps", -1, "Requests a second to the API server; below 0 leaves the limit to its priority and fairness.")
	fs.IntVar(&o.kubeAPIBurst, "kube-api-burst", 100, "Requests that may be made at once beyond --kube-api-qps.")
	fs.StringVar(&o.watchLabelSelector, "watch-label-selector", "", "Reconcile only resources with these labels, so that several operators share the work.")
	fs.BoolVar(&o.suppressOverrideValues, "suppress-override-values", false, "Accepted for operator-sdk projects. Override values never show in logs, events or status.")

	fs.StringVar(&o.metricsAddress, "metrics-addr", ":8080", "")
	fs.BoolVar(&o.leaderElect, "enable-leader-election", false, "")
	_ = fs.MarkDeprecated("metrics-addr", "use --metrics-bind-address")
	_ = fs.MarkDeprecated("enable-leader-election", "use --leader-elect")
}

// validate refuses what cannot work.
func (o *options) validate() error {
	switch {
	case o.maxConcurrentReconciles < 1:
		return fmt.Errorf("--max-concurrent-reconciles has to be at least 1, and is %d", o.maxConcurrentReconciles)
	case o.reconcilePeriod < 0:
		return fmt.Errorf("--reconcile-period must not be negative, and is %s", o.reconcilePeriod)
	case o.timeout <= 0:
		return fmt.Errorf("--timeout has to be above 0, and is %s", o.timeout)
	case o.defaultServiceAccount != "" && len(validation.IsDNS1123Subdomain(o.defaultServiceAccount)) > 0:
		return fmt.Errorf("--default-service-account has to be the name of a ServiceAccount, and is %q", o.defaultServiceAccount)
	case slices.ContainsFunc(o.namespaces(), func(ns string) bool { return len(validation.IsDNS1123Label(ns)) > 0 }):
		return fmt.Errorf("--watch-namespaces and $%s have to name namespaces, and say %q", WatchNamespaceEnv, o.namespaces())
	case o.metricsRequireRBAC && !o.metricsSecure:
		return errors.New("--metrics-require-rbac needs --metrics-secure: a token must not be sent in the clear")
	case o.webhookPort < 0 || o.webhookPort > 65535:
		return fmt.Errorf("--webhook-port has to be from 1 to 65535, or 0 for no webhook, and is %d", o.webhookPort)
	}
	return nil
}

// namespaces returns which namespaces to watch, those of the flag before those of the environment; none means all.
func (o *options) namespaces() []string {
	names := o.watchNamespaces
	if len(names) == 0 {
		names = strings.Split(os.Getenv(WatchNamespaceEnv), ",")
	}
	var out []string
	for _, ns := range names {
		if ns = strings.TrimSpace(ns); ns != "" {
			out = append(out, ns)
		}
	}
	return out
}
