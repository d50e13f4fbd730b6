// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/harness"
)

var docsBlock = regexp.MustCompile("(?m)^ *```sh\n((?s:.*?))^ *```")

// commandsOf returns the shell blocks of a section of docs/install.md.
func commandsOf(t *testing.T, root, section string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(content), "\n### "+section+"\n")
	if !found {
		t.Fatalf("docs/install.md has no section %q", section)
	}
	text, _, _ = strings.Cut(text, "\n### ")
	var blocks []string
	for _, m := range docsBlock.FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

const removedKinds = `
- group: apps.chartgate.dev
  version: v1alpha1
  kind: Guestbook
  chart: helm-charts/guestbook
- group: apps.chartgate.dev
  version: v1alpha1
  kind: WebApp
  chart: helm-charts/webapp
  translator: webapp
`

// removal is an operator of Guestbooks and WebApps in the whole cluster, with one of each: shop and site.
type removal struct {
	*harness.Env
	manager    *harness.Manager
	books, web *harness.Kind
	run        func(script string) string
}

// startRemoval starts the operator.
func startRemoval(t *testing.T) *removal {
	t.Helper()
	e := harness.New(t)
	t.Chdir(e.Root()) // charts are named from there
	web := &harness.Kind{GroupVersionKind: v1alpha1.GroupVersion.WithKind(v1alpha1.KindWebApp)}
	r := &removal{Env: e, books: e.Guestbook(), web: web.In(e), run: e.Shell()}
	r.installKinds()
	r.manager = e.StartManager(harness.ManagerOptions{Watches: removedKinds})
	r.books.Create("shop", map[string]any{})
	r.web.Create("site", map[string]any{"image": "registry.test/site:1"})
	r.books.WaitReady("shop")
	r.web.WaitReady("site")
	return r
}

func (r *removal) installKinds() {
	r.Helper()
	r.Kubectl("apply", "--server-side", "-f", filepath.Join(r.Root(), "config", "crd", "bases"))
	r.Kubectl("wait", "--for=condition=Established", "crd/guestbooks.apps.chartgate.dev", "crd/webapps.apps.chartgate.dev")
	// The API server tells of their category a moment later.
	r.Eventually("the category is known", func() error {
		if out := r.run("kubectl get chartgate --all-namespaces 2>&1 || true"); strings.Contains(out, "error:") {
			return errors.New(out)
		}
		return nil
	})
}

// wantGone wants nothing of the releases to be left.
func (r *removal) wantGone(names ...string) {
	r.Helper()
	for _, name := range names {
		r.WaitObjectGone("apps/v1", "Deployment", name)
		r.WaitObjectGone("v1", "Service", name)
		r.WantHistory(name, "")
	}
}

// wantKept wants the objects of the releases to be there, under Helm alone.
func (r *removal) wantKept(names ...string) {
	r.Helper()
	for _, name := range names {
		for kind, apiVersion := range map[string]string{"Deployment": "apps/v1", "Service": "v1"} {
			o := r.Object(apiVersion, kind, name)
			if o == nil || o.GetDeletionTimestamp() != nil || len(o.GetOwnerReferences()) > 0 {
				r.Errorf("%s %s is not kept for itself: %v", kind, name, o)
			}
		}
		r.WantHistory(name, "1:deployed")
	}
}

func TestEverythingIsRemovedAsTheDocumentationSays(t *testing.T) {
	r := startRemoval(t)
	blocks := commandsOf(t, r.Root(), "Everything, without leftovers")
	if len(blocks) != 3 || !strings.Contains(blocks[1], "delete subscription") {
		t.Fatalf("the section has the blocks %q", blocks)
	}
	r.Kubectl("apply", "-f", filepath.Join(r.Root(), "config/policy/approver_role.yaml"))
	// make uninstall and make undeploy ask before they take kinds away.
	if out := r.run("! hack/check-unused.sh 2>&1"); !strings.Contains(out, "Guestbook "+r.Namespace+"/shop") || !strings.Contains(out, "WebApp "+r.Namespace+"/site") {
		t.Errorf("what is in use: %s", out)
	}
	if out := r.run("! KUBECTL=./no-kubectl hack/check-unused.sh 2>&1"); !strings.Contains(out, "can't be told") {
		t.Errorf("without an answer: %s", out)
	}
	if out := r.run(blocks[0]); !strings.Contains(out, "guestbook.apps.chartgate.dev/shop") || !strings.Contains(out, "webapp.apps.chartgate.dev/site") {
		t.Errorf("the list of what there is: %s", out)
	}
	r.wantGone("shop", "site")
	r.manager.Stop() // the second block is OLM's: the end-to-end tests have it
	r.run("hack/check-unused.sh")
	r.run(blocks[2])
	r.run("hack/check-unused.sh")
	if left := r.Kubectl("get", "crd", "-o", "name"); strings.Contains(left, ".apps.chartgate.dev") {
		t.Errorf("kinds are left: %s", left)
	}
	if left := r.Kubectl("get", "clusterrole", "-o", "name", "-l", "app.kubernetes.io/name=chartgate"); left != "" && !strings.Contains(left, "No resources found") {
		t.Errorf("ClusterRoles are left: %s", left)
	}
}

func TestWorkloadsAreKeptAsTheDocumentationSays(t *testing.T) {
	r := startRemoval(t)
	r.run(strings.Join(commandsOf(t, r.Root(), "Keep the workloads"), ""))
	r.wantKept("shop", "site")
	if list := r.Helm("list"); !strings.Contains(list, "shop") || !strings.Contains(list, "site") {
		t.Errorf("helm list: %s", list)
	}
	// Handed back, they are where they were.
	obj := r.books.Named("shop")
	obj.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "true"})
	obj.Object["spec"] = map[string]any{}
	if err := r.Client.Create(r.Ctx, obj); err != nil {
		t.Fatal(err)
	}
	if st := r.books.WaitReady("shop"); st.Revision != 1 {
		t.Errorf("revision %d", st.Revision)
	}
	r.books.Delete("shop")
	r.wantGone("shop")
	r.Helm("uninstall", "site")
	r.wantGone("site")
}

func TestResourcesOutliveTheOperatorAsTheDocumentationSays(t *testing.T) {
	r := startRemoval(t)
	blocks := commandsOf(t, r.Root(), "The operator went first")
	if len(blocks) != 2 {
		t.Fatalf("the section has the blocks %q", blocks)
	}
	r.manager.Stop()
	for _, o := range []client.Object{r.books.Named("shop"), r.web.Named("site")} {
		if err := r.Client.Delete(r.Ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	if out := r.run(blocks[0]); !strings.Contains(out, "uninstall-helm-release") || strings.HasPrefix(out, " ") {
		t.Errorf("what it waits for: %q", out)
	}
	// It can't be installed any more: first the workloads stay, and then they go.
	const last = "helm uninstall shop\n"
	if !strings.HasSuffix(blocks[1], last) {
		t.Fatalf("the block ends otherwise: %s", blocks[1])
	}
	r.run(strings.TrimSuffix(blocks[1], last))
	r.books.WaitGone("shop")
	r.wantKept("shop")
	r.run(last)
	r.wantGone("shop")
	// Or it is installed again, and goes on.
	r.manager.Start()
	r.web.WaitGone("site")
	r.wantGone("site")
}

func TestKindsGoFirstAsTheDocumentationSays(t *testing.T) {
	r := startRemoval(t)
	left := r.web.Named("site")
	if err := r.Client.Patch(r.Ctx, left, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"release":{"deletionPolicy":"Orphan"}}}`))); err != nil {
		t.Fatal(err)
	}
	r.run("kubectl delete crd guestbooks.apps.chartgate.dev webapps.apps.chartgate.dev --timeout=60s")
	r.wantGone("shop")
	r.wantKept("site")
	r.Helm("uninstall", "site")

	// It goes on when they are back.
	r.installKinds()
	r.books.Create("shop", map[string]any{})
	r.books.WaitReady("shop")

	// With the operator gone, the kind waits for its resources, and they for it.
	r.manager.Stop()
	r.run("kubectl delete crd guestbooks.apps.chartgate.dev --wait=false")
	blocks := commandsOf(t, r.Root(), "The CRD went first")
	if len(blocks) != 1 {
		t.Fatalf("the section has the blocks %q", blocks)
	}
	r.Eventually("the kind says what it waits for", func() error {
		if out := r.run(blocks[0]); !strings.Contains(out, "CustomResource deletion is in progress") {
			return errors.New(out)
		}
		return nil
	})
	another := r.books.Named("another")
	another.Object["spec"] = map[string]any{}
	if err := r.Client.Create(r.Ctx, another); err == nil || !strings.Contains(err.Error(), "create not allowed while custom resource definition is terminating") {
		t.Errorf("another resource of the kind: %v", err)
	}
	r.manager.Start()
	r.WaitObjectGone("apiextensions.k8s.io/v1", "CustomResourceDefinition", "guestbooks.apps.chartgate.dev")
	r.wantGone("shop")
}
