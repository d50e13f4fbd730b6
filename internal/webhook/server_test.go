// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// writeCertificate puts a certificate with the serial number into the folder, as a kubelet does: the
// old one or the new one is there, nothing in between.
func writeCertificate(t *testing.T, dir string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "webhook"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	data := fmt.Sprintf("..%d", serial)
	if err := os.Mkdir(filepath.Join(dir, data), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: cert}, "tls.key": {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(filepath.Join(dir, data, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Symlink(data, filepath.Join(dir, "..new")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// eventually waits until the check returns nil, 30 seconds at most.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
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

func TestServerNeedsACertificate(t *testing.T) {
	dir := t.TempDir()
	_, err := NewServer(Options{Port: 9443, CertDir: dir})
	if err == nil || !strings.Contains(err.Error(), "no serving certificate in "+dir) || !strings.Contains(err.Error(), "--webhook-cert-dir") {
		t.Errorf("without: %v", err)
	}
	writeCertificate(t, dir, 1)
	if err := os.WriteFile(filepath.Join(dir, "..1", "tls.key"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewServer(Options{Port: 9443, CertDir: dir}); err == nil || !strings.Contains(err.Error(), "no serving certificate") {
		t.Errorf("with a broken key: %v", err)
	}
}

func TestServerServesAndFollowsItsCertificate(t *testing.T) {
	dir, port := t.TempDir(), freePort(t)
	writeCertificate(t, dir, 1)
	server, err := NewServer(Options{Host: "127.0.0.1", Port: port, CertDir: dir, Reviewer: &fakeReviewer{allowed: true}})
	if err != nil {
		t.Fatal(err)
	}
	if server.NeedLeaderElection() {
		t.Error("only the leader serves")
	}
	ready := server.StartedChecker()
	if ready(nil) == nil {
		t.Error("ready before it serves")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	eventually(t, "it is ready", func() error { return ready(nil) })

	asked := request(admissionv1.Create, byOtto, "").AdmissionRequest
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request:  &asked,
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	post := func(path string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("https://127.0.0.1:%d%s", port, path), bytes.NewReader(review))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		return client.Do(r)
	}
	response, err := post(Path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if answer.Response == nil || answer.Response.Allowed || answer.Response.UID != "1" || response.TLS.PeerCertificates[0].SerialNumber.Int64() != 1 {
		t.Errorf("answer %+v by %s", answer.Response, response.TLS.PeerCertificates[0].SerialNumber)
	}
	if r, err := post("/other"); err != nil || r.StatusCode != http.StatusNotFound {
		t.Errorf("another path: %v, %v", r, err)
	} else {
		_ = r.Body.Close()
	}

	writeCertificate(t, dir, 2)
	eventually(t, "the new certificate is served", func() error {
		r, err := post(Path)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if got := r.TLS.PeerCertificates[0].SerialNumber.Int64(); got != 2 {
			return fmt.Errorf("certificate %d", got)
		}
		return nil
	})
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it does not stop")
	}
}
