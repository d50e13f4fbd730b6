// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/chartserver"
)

// clientPair is a client certificate and its key, in PEM format.
func clientPair(t testing.TB) map[string][]byte {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	cert := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))}),
	}
}

func TestClientCertificateIsShownToTheRepositoryAlone(t *testing.T) {
	charts := chartserver.NewRepository(t)
	charts.Add(t, "shop", "1.0.0")
	shown := make(chan int, 10)
	other := chartserver.Quiet(httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		shown <- len(req.TLS.PeerCertificates)
		http.ServeFile(w, req, charts.Dir+req.URL.Path)
	})))
	other.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	other.StartTLS()
	t.Cleanup(other.Close)
	private := chartserver.Quiet(httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if len(req.TLS.PeerCertificates) != 1 {
			http.Error(w, "who are you?", http.StatusForbidden)
			return
		}
		http.Redirect(w, req, other.URL+req.URL.Path, http.StatusFound)
	})))
	private.TLS = other.TLS.Clone()
	private.TLS.Certificates = nil
	private.StartTLS()
	t.Cleanup(private.Close)

	b := newBench(t, nil)
	b.secrets["team/repo"] = chartserver.CASecret(private, nil)
	b.refused(t, helmApp(private.URL, "name", "shop", "version", "1.0.0"), v1alpha1.ReasonAuthenticationFailed, "403")
	maps.Copy(b.secrets["team/repo"], clientPair(t))
	b.must(t, helmApp(private.URL, "name", "shop", "version", "1.0.0"))
	for range 2 {
		if n := <-shown; n != 0 {
			t.Error("the other host was shown the certificate")
		}
	}
	b.secrets["team/repo"]["tls.key"] = []byte("x")
	b.refused(t, helmApp(private.URL, "name", "shop", "version", "1.0.0"), v1alpha1.ReasonRepositorySecretInvalid, "tls.key")
}

func TestSecretsThatCannotBeReadAreNoFaultOfTheChart(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "repo", nil)
	_, err := newBench(t, nil).Repository.Resolve(t.Context(), helmApp("https://charts.example.com", "name", "shop", "version", "1.0.0"), unreadable{denied})
	if _, ofChart := errors.AsType[*Error](err); ofChart || !apierrors.IsForbidden(err) {
		t.Errorf("error %v", err)
	}
}

// unreadable are Secrets that can't be read.
type unreadable struct{ err error }

func (u unreadable) Secret(context.Context, string) (map[string][]byte, error) { return nil, u.err }
