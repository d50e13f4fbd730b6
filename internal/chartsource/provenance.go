// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"

	"github.com/ProtonMail/go-crypto/openpgp"
	"helm.sh/helm/v3/pkg/provenance"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// verify checks the signature of a chart against the public keys, and tells who signed it.
func (r *Repository) verify(q *query, file string, a *archive) (signedBy string, err error) {
	keys, err := readKeys(q.keyring)
	if err != nil {
		return "", absent(v1alpha1.ReasonRepositorySecretInvalid, "the keyring in spec.chart.verify.secretRef holds no OpenPGP public keys, as 'gpg --export' writes them: %s", plain(err.Error()))
	}
	if len(a.signature) == 0 {
		return "", absent(v1alpha1.ReasonVerificationFailed, "chart %s is not signed: there is no provenance file (%s.prov)", file, file)
	}
	// Helm verifies files, by the name that the provenance file gives them.
	dir, err := os.MkdirTemp(r.dir, tempPrefix+"verify-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	chartFile := filepath.Join(dir, file)
	if err := os.WriteFile(chartFile, a.data, 0o600); err != nil {
		return "", err
	}
	if err := os.WriteFile(chartFile+".prov", a.signature, 0o600); err != nil {
		return "", err
	}
	signatory := &provenance.Signatory{KeyRing: keys}
	verification, err := signatory.Verify(chartFile, chartFile+".prov")
	if err != nil {
		return "", absent(v1alpha1.ReasonVerificationFailed, "chart %s is not signed by a key in spec.chart.verify.secretRef: %s; it is not used", file, plain(err.Error()))
	}
	return signer(verification.SignedBy), nil
}

func readKeys(data []byte) (openpgp.EntityList, error) {
	if bytes.Contains(data, []byte("-----BEGIN PGP")) {
		return openpgp.ReadArmoredKeyRing(bytes.NewReader(data))
	}
	return openpgp.ReadKeyRing(bytes.NewReader(data))
}

// signer names a key: its user, and its fingerprint.
func signer(e *openpgp.Entity) string {
	names := make([]string, 0, len(e.Identities))
	for name := range e.Identities {
		names = append(names, name)
	}
	slices.Sort(names)
	fingerprint := hex.EncodeToString(e.PrimaryKey.Fingerprint)
	if len(names) == 0 {
		return fingerprint
	}
	return plain(names[0]) + " (" + fingerprint + ")"
}
