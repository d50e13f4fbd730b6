// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLife exceeds every control plane's life by far.
const certificateLife = 365 * 24 * time.Hour

// An authority is the certificate authority of one control plane.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	certPEM     []byte
	keyPEM      []byte
}

// A keyPair is a certificate with its private key, PEM encoded.
type keyPair struct {
	cert, key []byte
}

func newAuthority() (*authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	template, err := certificateTemplate(pkix.Name{CommonName: "chartgate-control-plane"})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage |= x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read back the certificate authority: %w", err)
	}
	return &authority{certificate: certificate, key: key, certPEM: encodePEM("CERTIFICATE", der), keyPEM: keyPEM}, nil
}

// client issues a certificate with which the API server knows a user by name
// and groups.
func (a *authority) client(name string, groups ...string) (keyPair, error) {
	return a.issue(pkix.Name{CommonName: name, Organization: groups}, x509.ExtKeyUsageClientAuth, nil, nil)
}

// server issues a serving certificate for host names and addresses.
func (a *authority) server(name string, hosts []string, addresses []net.IP) (keyPair, error) {
	return a.issue(pkix.Name{CommonName: name}, x509.ExtKeyUsageServerAuth, hosts, addresses)
}

func (a *authority) issue(subject pkix.Name, usage x509.ExtKeyUsage, hosts []string, addresses []net.IP) (keyPair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return keyPair{}, err
	}
	template, err := certificateTemplate(subject)
	if err != nil {
		return keyPair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	template.DNSNames, template.IPAddresses = hosts, addresses
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign the certificate of %q: %w", subject.CommonName, err)
	}
	return keyPair{cert: encodePEM("CERTIFICATE", der), key: keyPEM}, nil
}

func certificateTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("choose a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return key, encodePEM("EC PRIVATE KEY", der), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// writeKeys writes all that the servers read: the authority (ca), the API
// server's serving certificate (apiserver), which is good for further addresses
// as well, its client certificates towards
// kubelets and aggregated API servers, and the keys of service account tokens
// (sa).
func (a *authority) writeKeys(dir string, addresses ...net.IP) error {
	serving, err := a.server("kube-apiserver",
		[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		append(addresses, net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 96, 0, 1)))
	if err != nil {
		return err
	}
	kubelet, err := a.client("kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	frontProxy, err := a.client(frontProxyName)
	if err != nil {
		return err
	}
	tokens, tokensPEM, err := newKey()
	if err != nil {
		return err
	}
	tokensPublic, err := x509.MarshalPKIXPublicKey(tokens.Public())
	if err != nil {
		return fmt.Errorf("encode the service account key: %w", err)
	}
	files := map[string][]byte{
		"ca.crt": a.certPEM, "ca.key": a.keyPEM,
		"apiserver.crt": serving.cert, "apiserver.key": serving.key,
		"kubelet-client.crt": kubelet.cert, "kubelet-client.key": kubelet.key,
		"front-proxy.crt": frontProxy.cert, "front-proxy.key": frontProxy.key,
		"sa.pub": encodePEM("PUBLIC KEY", tokensPublic), "sa.key": tokensPEM,
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of certificates: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("write the control plane's keys: %w", err)
		}
	}
	return nil
}
