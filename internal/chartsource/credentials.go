// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// Secrets reads the Secrets of one resource's namespace, as the identity that
// the resource acts as.
type Secrets interface {
	// Secret returns what the Secret of this name holds, or an error that apierrors.IsNotFound
	// knows where there is none. It is called at every reconcile. The data must not be modified.
	Secret(ctx context.Context, name string) (map[string][]byte, error)
}

// Keys of a Secret for a repository, besides those that Kubernetes has names for.
const keyCA = "ca.crt"

// secretKeys are those that are looked at.
var secretKeys = []string{
	corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey, corev1.DockerConfigJsonKey,
	keyCA, corev1.TLSCertKey, corev1.TLSPrivateKeyKey,
}

// credentials are what a Secret holds for a repository.
type credentials struct {
	secret string // its name, for messages; empty for none
	data   map[string][]byte
}

// readSecret reads a Secret that the resource names.
func readSecret(ctx context.Context, secrets Secrets, owner *unstructured.Unstructured, field, name string) (map[string][]byte, error) {
	data, err := secrets.Secret(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil, absent(v1alpha1.ReasonRepositorySecretInvalid, "%s: Secret %s is missing in namespace %s; create it", field, name, owner.GetNamespace())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: Secret %s/%s: %w", field, owner.GetNamespace(), name, err)
	}
	return data, nil
}

// fingerprint tells Secret contents apart without telling anything of them:
// equal credentials share what was fetched with them.
func fingerprint(key []byte, parts ...[]byte) string {
	h := hmac.New(sha256.New, key)
	for _, part := range parts {
		_, _ = fmt.Fprintf(h, "%d:", len(part))
		_, _ = h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (c credentials) fingerprint(key []byte) string {
	parts := make([][]byte, 0, len(secretKeys))
	for _, k := range secretKeys {
		parts = append(parts, c.data[k])
	}
	return fingerprint(key, parts...)
}

// trustOnly are the credentials for another host: none, but the same authorities.
func (c credentials) trustOnly() credentials {
	return credentials{secret: c.secret, data: map[string][]byte{keyCA: c.data[keyCA]}}
}

// access is what a session presents, and whom it trusts.
type access struct {
	username, password string
	token              string         // identity token of a registry
	roots              *x509.CertPool // nil: the system's
	certificates       []tls.Certificate
}

// access reads the credentials for the repository.
func (c credentials) access(u *url.URL) (*access, error) {
	a := &access{username: string(c.data[corev1.BasicAuthUsernameKey]), password: string(c.data[corev1.BasicAuthPasswordKey])}
	if config := c.data[corev1.DockerConfigJsonKey]; len(config) > 0 && a.username == "" {
		if err := a.docker(config, u); err != nil {
			return nil, absent(v1alpha1.ReasonRepositorySecretInvalid, "Secret %s: key %s: %w", c.secret, corev1.DockerConfigJsonKey, err)
		}
	}
	if ca := c.data[keyCA]; len(ca) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool() // a system without any
		}
		if !pool.AppendCertsFromPEM(ca) {
			return nil, absent(v1alpha1.ReasonRepositorySecretInvalid, "Secret %s: key %s holds no certificate in PEM format", c.secret, keyCA)
		}
		a.roots = pool
	}
	cert, key := c.data[corev1.TLSCertKey], c.data[corev1.TLSPrivateKeyKey]
	if len(cert) > 0 && len(key) > 0 {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, absent(v1alpha1.ReasonRepositorySecretInvalid, "Secret %s: keys %s and %s are no certificate with its key in PEM format", c.secret, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
		}
		a.certificates = []tls.Certificate{pair}
	}
	return a, nil
}

// docker takes user and password from a Docker configuration: the entry of the
// longest path that the repository is below of.
func (a *access) docker(config []byte, u *url.URL) error {
	var parsed struct {
		Auths map[string]struct {
			Username      string `json:"username"`
			Password      string `json:"password"`
			Auth          string `json:"auth"`
			IdentityToken string `json:"identitytoken"`
		} `json:"auths"`
	}
	if err := json.Unmarshal(config, &parsed); err != nil {
		return fmt.Errorf("it is not the JSON that 'kubectl create secret docker-registry' makes") // the parser's words may show what is in it
	}
	best := ""
	for server := range parsed.Auths {
		if below(u, server) && len(server) >= len(best) {
			best = server
		}
	}
	if best == "" {
		return fmt.Errorf("it has no entry for %s", u.Host)
	}
	entry := parsed.Auths[best]
	a.username, a.password, a.token = entry.Username, entry.Password, entry.IdentityToken
	if a.username == "" && entry.Auth != "" {
		plain, err := base64.StdEncoding.DecodeString(entry.Auth)
		if err != nil {
			return fmt.Errorf("field auth of its entry for %s is not base64", u.Host)
		}
		a.username, a.password, _ = strings.Cut(string(plain), ":")
	}
	return nil
}

// below tells whether the server of a Docker configuration, a host with an
// optional scheme and path, is the repository's.
func below(u *url.URL, server string) bool {
	if _, rest, ok := strings.Cut(server, "://"); ok {
		server = rest
	}
	server = strings.TrimSuffix(server, "/")
	host, path, _ := strings.Cut(server, "/")
	if registryHost(host) != registryHost(u.Host) {
		return false
	}
	if path == "" || path == "v1" || path == "v2" {
		return true
	}
	return strings.HasPrefix(u.Path+"/", "/"+path+"/")
}

// registryHost is the host that is really asked: Docker Hub goes by several names.
func registryHost(host string) string {
	switch host = strings.ToLower(host); host {
	case "docker.io", "index.docker.io":
		return "registry-1.docker.io"
	default:
		return host
	}
}
