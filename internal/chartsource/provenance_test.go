// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"helm.sh/helm/v3/pkg/provenance"
	"helm.sh/helm/v3/pkg/registry"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/chartserver"
)

func newKey(t testing.TB, name string) *openpgp.Entity {
	t.Helper()
	e, err := openpgp.NewEntity(name, "", name+"@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func public(t testing.TB, e *openpgp.Entity, armored bool) []byte {
	t.Helper()
	var buf bytes.Buffer
	if !armored {
		if err := e.Serialize(&buf); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	w, err := armor.Encode(&buf, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Serialize(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// sign makes a provenance file as 'helm package --sign' does.
func sign(t testing.TB, e *openpgp.Entity, file string, data []byte) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := (&provenance.Signatory{Entity: e}).ClearSign(path)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(text)
}

func TestSignatureIsVerified(t *testing.T) {
	ann, eve := newKey(t, "ann"), newKey(t, "eve")
	charts, reg := chartserver.NewRepository(t), chartserver.NewRegistry(t)
	charts.Add(t, "shop", "1.0.0", "1.1.0", "1.2.0")
	read := func(file string) []byte {
		data, err := os.ReadFile(filepath.Join(charts.Dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	charts.File(t, "shop-1.0.0.tgz.prov", sign(t, ann, "shop-1.0.0.tgz", read("shop-1.0.0.tgz")))
	charts.File(t, "shop-1.1.0.tgz.prov", sign(t, ann, "shop-1.1.0.tgz", read("shop-1.0.0.tgz")))
	pushed := chartserver.PackChart(t, "shop", "1.0.0")
	reg.Push(t, "shop", "1.1.0")
	reg.Push(t, "shop", "1.0.0", registry.PushOptProvData(sign(t, ann, "shop-1.0.0.tgz", pushed)))

	verify := map[string]any{"secretRef": map[string]any{"name": "keys"}}
	b := newBench(t, nil)
	b.secrets["team/repo"] = chartserver.CASecret(charts.Server, nil)
	app := func(version string) *Chart {
		c, err := b.Resolve(t.Context(), helmApp(charts.URL, "name", "shop", "version", version, "verify", verify))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	b.secrets["team/keys"] = map[string][]byte{"keyring.gpg": public(t, ann, false)}
	if c := app("1.0.0"); !strings.Contains(c.Origin.SignedBy, "ann@example.com") {
		t.Errorf("signed by %q", c.Origin.SignedBy)
	}
	charts.Requests.Expect(t, "signed", "/index.yaml", "/shop-1.0.0.tgz", "/shop-1.0.0.tgz.prov")
	b.refused(t, helmApp(charts.URL, "name", "shop", "version", "1.1.0", "verify", verify), v1alpha1.ReasonVerificationFailed, "sum does not match")
	b.refused(t, helmApp(charts.URL, "name", "shop", "version", "1.2.0", "verify", verify), v1alpha1.ReasonVerificationFailed, "not signed", "shop-1.2.0.tgz.prov")

	// What was verified by one key is not by another.
	b.secrets["team/keys"] = map[string][]byte{"keyring.gpg": public(t, eve, true)}
	b.refused(t, helmApp(charts.URL, "name", "shop", "version", "1.0.0", "verify", verify), v1alpha1.ReasonVerificationFailed)
	b.must(t, helmApp(charts.URL, "name", "shop", "version", "1.0.0"))
	b.secrets["team/keys"] = map[string][]byte{"keyring.gpg": append(public(t, ann, true), public(t, eve, true)...)}
	app("1.0.0")
	b.secrets["team/keys"] = map[string][]byte{"keyring.gpg": []byte("no key")}
	b.refused(t, helmApp(charts.URL, "name", "shop", "version", "1.0.0", "verify", verify), v1alpha1.ReasonRepositorySecretInvalid, "gpg --export")
	b.secrets["team/keys"] = map[string][]byte{"other": nil}
	b.refused(t, helmApp(charts.URL, "name", "shop", "version", "1.0.0", "verify", verify), v1alpha1.ReasonRepositorySecretInvalid, "no key keyring.gpg")

	b = newBench(t, nil)
	b.secrets["team/repo"] = chartserver.CASecret(reg.Server, nil)
	b.secrets["team/keys"] = map[string][]byte{"mine.asc": public(t, ann, true)}
	verify["secretRef"] = map[string]any{"name": "keys", "key": "mine.asc"}
	c := b.must(t, helmApp("oci://"+reg.Host()+"/charts/shop", "version", "1.0.0", "verify", verify))
	if !strings.Contains(c.Origin.SignedBy, "ann@example.com") {
		t.Errorf("signed by %q", c.Origin.SignedBy)
	}
	e := b.refused(t, helmApp("oci://"+reg.Host()+"/charts/shop", "version", "1.1.0", "verify", verify), v1alpha1.ReasonVerificationFailed, "not signed")
	if !e.Terminal || e.RetryAfter != 10*time.Minute {
		t.Errorf("error: %#v", e)
	}
}
