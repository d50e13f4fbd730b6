// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/app"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/webhook"
	"github.com/chartgate/chartgate/test/harness"
)

// webhookServing is where the operator of a test serves its webhook.
type webhookServing struct {
	args []string
	url  string
	ca   []byte
}

// newWebhookServing makes a certificate for 127.0.0.1, and picks a port.
func newWebhookServing(e *harness.Env) webhookServing {
	e.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		e.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "webhook"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		e.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		e.Fatal(err)
	}
	dir, ca := e.TempDir(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	e.WriteFile(filepath.Join(dir, "tls.crt"), string(ca))
	e.WriteFile(filepath.Join(dir, "tls.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	port := freePort(e)
	return webhookServing{
		args: []string{"--webhook-host=127.0.0.1", "--webhook-port=" + port, "--webhook-cert-dir=" + dir},
		url:  "https://127.0.0.1:" + port + webhook.Path, ca: ca,
	}
}

// freePort is a port of the loopback interface that is free at this moment.
func freePort(e *harness.Env) string {
	e.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// installWebhook registers the webhook until the end of the test, as config/webhook does but reached
// by its URL, and waits until it is asked.
func installWebhook(e *harness.Env, s webhookServing) {
	e.Helper()
	e.Kubectl("apply", "--server-side", "-f", filepath.Join(e.Root(), "config/crd/bases/apps.chartgate.dev_releaseapprovals.yaml"))
	e.Kubectl("wait", "--for=condition=Established", "crd/releaseapprovals.apps.chartgate.dev")
	content, err := os.ReadFile(filepath.Join(e.Root(), "config/webhook/base/validating_webhook_configuration.yaml"))
	if err != nil {
		e.Fatal(err)
	}
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	if err := yaml.UnmarshalStrict(content, &configuration); err != nil {
		e.Fatal(err)
	}
	configuration.ObjectMeta = metav1.ObjectMeta{GenerateName: configuration.Webhooks[0].Name + "-"} // as OLM names it
	configuration.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &s.url, CABundle: s.ca}
	if err := e.Client.Create(e.Ctx, &configuration); err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { // the test's context has ended by then
		if err := e.Client.Delete(context.WithoutCancel(e.Ctx), &configuration); err != nil {
			e.Errorf("delete the webhook: %v", err)
		}
	})
	e.Eventually("approvals are checked", func() error {
		probe := approvalFor(e, v1alpha1.ApprovalTarget{Kind: "Guestbook", Name: "probe"}, v1alpha1.ReleaseApprovalSpec{Approver: "somebody else"})
		switch err := e.Client.Create(e.Ctx, probe, client.DryRunAll); {
		case err == nil:
			return errors.New("not yet")
		case !apierrors.IsForbidden(err):
			return err
		default:
			return nil
		}
	})
}

func TestApprovalByTheWebhook(t *testing.T) {
	e := harness.New(t)
	k := e.GatedKind(e.Chart("one", configChart))
	k.Extra = "  gates:\n  - {name: release, type: ManualApproval, accept: [ReleaseApproval], checkInterval: 3600}\n"
	serving := newWebhookServing(e)
	m := e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: append(serving.args, onlyWatches...)})
	e.Kubectl("apply", "--server-side", "-f", filepath.Join(e.Root(), "config/crd/bases/apps.chartgate.dev_releaseapprovals.yaml"))
	e.Kubectl("wait", "--for=condition=Established", "crd/releaseapprovals.apps.chartgate.dev")
	anna, otto := as(e, k, "anna", true), as(e, k, "otto", false)
	target := v1alpha1.ApprovalTarget{Kind: k.Kind, Name: "one", Group: k.Group}
	k.Create("one", map[string]any{"message": "a"})
	waitHeld(k, "one")
	if g := waitGate(k, "one", "release", v1alpha1.VerdictWaiting, gate.ReasonApproverUnverified); !strings.Contains(g.Message, "no ValidatingWebhookConfiguration calls "+webhook.Path) {
		t.Errorf("message: %s", g.Message)
	}
	installWebhook(e, serving)
	waitGate(k, "one", "release", v1alpha1.VerdictWaiting, gate.ReasonApprovalPending) // woken by the webhook

	for what, try := range map[string]struct {
		by       client.Client
		approver string
		says     string
	}{
		"in somebody else's name": {anna, "otto", "spec.approver must be the user who approves: anna"},
		"without the verb":        {otto, "otto", "otto may not approve " + k.Resource() + "." + k.Group + " one in namespace " + e.Namespace},
		"as who has the verb":     {otto, "anna", "spec.approver must be the user who approves: otto"},
	} {
		err := try.by.Create(e.Ctx, approvalFor(e, target, v1alpha1.ReleaseApprovalSpec{Approver: try.approver}))
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), try.says) {
			t.Errorf("approved %s: %v", what, err)
		}
	}
	approve := approvalFor(e, target, v1alpha1.ReleaseApprovalSpec{Approver: "anna", Digest: waitHeld(k, "one").Pending.Digest})
	m.Stop()
	if err := anna.Create(e.Ctx, approve.DeepCopy()); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("approved while the webhook was down: %v", err)
	}
	m.Start()
	e.Eventually("the webhook is back", func() error { return anna.Create(e.Ctx, approve.DeepCopy(), client.DryRunAll) })
	e.WantHistory("one", "")

	if err := anna.Create(e.Ctx, approve); err != nil {
		t.Fatal(err)
	}
	if st := k.WaitReady("one"); len(st.Approvals) != 1 || st.Approvals[0].Approver != "anna" {
		t.Errorf("approvals on record: %+v", st.Approvals)
	}
	e.WantHistory("one", "1:deployed")
	edited := approve.DeepCopy()
	_ = unstructured.SetNestedField(edited.Object, "", "spec", "digest")
	if err := anna.Update(e.Ctx, edited); !apierrors.IsInvalid(err) {
		t.Errorf("an approval was changed afterwards: %v", err)
	}
	labeled := approve.DeepCopy()
	labeled.SetLabels(map[string]string{"seen": "yes"})
	if err := otto.Update(e.Ctx, labeled); err != nil {
		t.Errorf("an approval was not labeled: %v", err)
	}
}

func TestAReplicaThatDoesNotLeadServesTheWebhook(t *testing.T) {
	e := harness.New(t)
	k := e.GatedKind(e.Chart("one", configChart))
	election := append([]string{"--leader-elect", "--leader-election-id=webhook", "--leader-election-namespace=" + e.Namespace}, onlyWatches...)
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: election})
	var leader string
	e.WaitObject("coordination.k8s.io/v1", "Lease", "webhook", func(o *unstructured.Unstructured) error {
		leader, _, _ = unstructured.NestedString(o.Object, "spec", "holderIdentity")
		if leader == "" {
			return errors.New("nobody leads")
		}
		return nil
	})
	serving := newWebhookServing(e)
	probe := "127.0.0.1:" + freePort(e)
	m := e.StartManager(harness.ManagerOptions{
		Watches: harness.Watches(k), Args: slices.Concat(election, serving.args, []string{"--health-probe-bind-address=" + probe}),
	})
	e.Eventually("it is ready, with the webhook", func() error {
		answer, err := httpGet(e.Ctx, "http://"+probe+"/readyz?verbose")
		if err == nil && !strings.Contains(answer, "[+]webhook ok") {
			err = errors.New(answer)
		}
		return err
	})
	installWebhook(e, serving)
	lease := e.Object("coordination.k8s.io/v1", "Lease", "webhook")
	if now, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity"); now != leader {
		t.Errorf("%s leads, it was %s", now, leader)
	}
	m.Stop()
}

// httpGet returns the body of an answer 200.
func httpGet(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}

// grantCommand finds in a refusal the commands that grant what is missing.
var grantCommand = regexp.MustCompile(`grant it: kubectl (create role .*?) \| kubectl apply -f - && kubectl (create rolebinding .*?);`)

func TestTheRefusalOfTheWebhookSaysHowToGrantTheVerb(t *testing.T) {
	e := harness.New(t)
	k := e.GatedKind(e.Chart("one", configChart))
	serving := newWebhookServing(e)
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: append(serving.args, onlyWatches...)})
	installWebhook(e, serving)
	otto := as(e, k, "otto", false)
	approval := approvalFor(e, v1alpha1.ApprovalTarget{Kind: k.Kind, Name: "one", Group: k.Group}, v1alpha1.ReleaseApprovalSpec{Approver: "otto"})
	err := otto.Create(e.Ctx, approval.DeepCopy())
	if !apierrors.IsForbidden(err) {
		t.Fatalf("approved without the verb: %v", err)
	}
	found := grantCommand.FindStringSubmatch(err.Error())
	if found == nil {
		t.Fatalf("no command in %v", err)
	}
	role := filepath.Join(e.TempDir(), "role.yaml")
	// kubectl warns of a verb that is not standard before the object.
	_, content, _ := strings.Cut(e.Kubectl(strings.Fields(found[1])...), "apiVersion:")
	e.WriteFile(role, "apiVersion:"+content)
	e.Kubectl("apply", "-f", role)
	e.Kubectl(strings.Fields(found[2])...)
	e.Eventually("otto may approve", func() error { return otto.Create(e.Ctx, approval.DeepCopy()) })
}

func TestTheWebhookNeedsACertificate(t *testing.T) {
	e := harness.New(t)
	k := e.OpenKind(e.Chart("one", configChart))
	dir := filepath.Join(e.TempDir(), "none")
	watches := filepath.Join(e.TempDir(), "watches.yaml")
	e.WriteFile(watches, harness.Watches(k))
	ctx, cancel := context.WithTimeout(e.Ctx, harness.Wait)
	defer cancel()
	stderr := &bytes.Buffer{}
	code := app.Run(ctx, e.Config, []string{
		"--watches-file", watches, "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--webhook-host=127.0.0.1", "--webhook-port=9443", "--webhook-cert-dir=" + dir,
	}, stderr)
	if said := stderr.String(); code != 1 || !strings.HasPrefix(said, "manager: the webhook has no serving certificate in "+dir) {
		t.Errorf("exit code %d: %s", code, said)
	}
}
