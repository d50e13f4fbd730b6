// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"crypto/tls"
	"fmt"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// Path that approvals are judged on. A ValidatingWebhookConfiguration vouches
	// for approvals only if it calls this path.
	Path = "/validate-apps-chartgate-dev-v1alpha1-releaseapproval"

	// DefaultCertDir is where OLM mounts the certificate that it makes.
	DefaultCertDir = "/tmp/k8s-webhook-server/serving-certs"

	certFile, keyFile = "tls.crt", "tls.key"
)

// Options of the server.
type Options struct {
	// Host is the address to listen on. Default: all.
	Host string
	// Port to listen on.
	Port int
	// CertDir is the folder with the certificate, tls.crt, and its key, tls.key.
	// Default: DefaultCertDir. They are read again when they change.
	CertDir string
	// HTTP2 is offered as well.
	HTTP2 bool
	// Reviewer tells who holds which right.
	Reviewer Reviewer
}

// NewServer returns a server of the rule, for a manager to start. It serves on
// every replica, whoever leads. That the certificate can be used is found out at once.
func NewServer(o Options) (webhook.Server, error) {
	if o.CertDir == "" {
		o.CertDir = DefaultCertDir
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(o.CertDir, certFile), filepath.Join(o.CertDir, keyFile)); err != nil {
		return nil, fmt.Errorf("the webhook has no serving certificate in %s: %w; have OLM or cert-manager (config/webhook/cert-manager) mount %s and %s there, "+
			"name their folder by --webhook-cert-dir, or leave the webhook out with --webhook-port=0", o.CertDir, err, certFile, keyFile)
	}
	options := webhook.Options{Host: o.Host, Port: o.Port, CertDir: o.CertDir, CertName: certFile, KeyName: keyFile}
	if !o.HTTP2 {
		options.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	}
	server := webhook.NewServer(options)
	server.Register(Path, &admission.Webhook{Handler: Approvals{Reviewer: o.Reviewer}})
	return server, nil
}
