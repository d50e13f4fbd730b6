// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/hack/ociimage"
	"github.com/chartgate/chartgate/hack/olm"
)

const committed = "../../bundle"

// bundle returns a copy of the committed bundle.
func bundle(t *testing.T) *olm.Bundle {
	t.Helper()
	original, err := olm.Read(committed)
	if err != nil {
		t.Fatal(err)
	}
	b, err := original.Copy(filepath.Join(t.TempDir(), "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// csv reads what is written of a bundle's ClusterServiceVersion.
func csv(t *testing.T, b *olm.Bundle) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(b.Dir, "manifests", "chartgate.clusterserviceversion.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestAnImageByDigestIsARelatedImage(t *testing.T) {
	b := bundle(t)
	byDigest := "registry.example.com/chartgate@sha256:" + strings.Repeat("a", 64)
	for _, image := range []string{byDigest, "registry.example.com/chartgate:v1"} {
		if err := b.SetImage(image); err != nil {
			t.Fatal(err)
		}
		if err := b.Write(); err != nil {
			t.Fatal(err)
		}
		content := csv(t, b)
		if n := strings.Count(content, "image: "+image); n != 1+strings.Count(content, "- image: "+image) || n == 0 {
			t.Errorf("%s is not the image of the one container:\n%s", image, content)
		}
		if related := strings.Contains(content, "relatedImages"); related != (image == byDigest) {
			t.Errorf("%s: related images: %v", image, related)
		}
	}
}

func TestFinishIsTheSameEveryTime(t *testing.T) {
	b := bundle(t)
	details := olm.Details{Image: "registry.example.com/chartgate:v1", Icon: []byte("<svg/>")}
	var results []string
	for range 2 {
		if err := b.Finish(details); err != nil {
			t.Fatal(err)
		}
		if err := b.Write(); err != nil {
			t.Fatal(err)
		}
		results = append(results, csv(t, b))
	}
	if results[0] != results[1] {
		t.Error("two results")
	}
	if strings.Contains(results[0], "createdAt") || !strings.Contains(results[0], "olm.skipRange: <"+b.Version) {
		t.Error(results[0][:2000])
	}
	details.CreatedAt = time.Unix(1700000000, 0)
	if err := b.Finish(details); err != nil {
		t.Fatal(err)
	}
	if err := b.Write(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(csv(t, b), `createdAt: "2023-11-14T22:13:20Z"`) {
		t.Error("createdAt is not what was asked for")
	}
}

// What makes the bundle installable, with no more rights than it needs.
func TestTheCommittedBundle(t *testing.T) {
	b := bundle(t)
	var got struct {
		Metadata struct{ Annotations map[string]string }
		Spec     struct {
			MinKubeVersion string
			InstallModes   []struct {
				Type      string
				Supported bool
			}
			Icon                      []struct{ Mediatype string }
			CustomResourceDefinitions struct {
				Owned []struct {
					Kind                               string
					DisplayName, Description           string
					SpecDescriptors, StatusDescriptors []any
					Resources                          []any
				}
			}
			Install struct {
				Spec struct {
					ClusterPermissions, Permissions []struct {
						Rules []struct{ APIGroups, Resources, Verbs []string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(csv(t, b)), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Spec.InstallModes) != 4 || slices.ContainsFunc(got.Spec.InstallModes, func(m struct {
		Type      string
		Supported bool
	}) bool {
		return !m.Supported
	}) {
		t.Errorf("install modes: %v", got.Spec.InstallModes)
	}
	if got.Spec.MinKubeVersion != "1.30.0" || len(got.Spec.Icon) != 1 {
		t.Errorf("minKubeVersion %s, icon %v", got.Spec.MinKubeVersion, got.Spec.Icon)
	}
	for _, kind := range got.Spec.CustomResourceDefinitions.Owned {
		if kind.DisplayName == "" || kind.Description == "" || len(kind.SpecDescriptors) == 0 || len(kind.Resources) == 0 {
			t.Errorf("%s is not described: %+v", kind.Kind, kind)
		}
		if kind.Kind != "ReleaseApproval" && len(kind.StatusDescriptors) == 0 {
			t.Errorf("%s has no status descriptors", kind.Kind)
		}
		if !strings.Contains(got.Metadata.Annotations["alm-examples"], `"kind": "`+kind.Kind+`"`) {
			t.Errorf("%s has no example", kind.Kind)
		}
	}
	// Rights in the whole cluster, in whatever mode it is installed: to ask the API server, and to see
	// whether it checks approvals.
	allowed := []string{"tokenreviews", "subjectaccessreviews", "namespaces", "validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations"}
	for _, permission := range got.Spec.Install.Spec.ClusterPermissions {
		for _, rule := range permission.Rules {
			for _, resource := range rule.Resources {
				if !slices.Contains(allowed, resource) {
					t.Errorf("clusterPermissions: %v on %s", rule.Verbs, resource)
				}
			}
		}
	}
	rules := 0
	for _, permission := range got.Spec.Install.Spec.Permissions {
		for _, rule := range permission.Rules {
			rules++
			if slices.Contains(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), "*") {
				t.Errorf("permissions: %v", rule)
			}
		}
	}
	if rules == 0 {
		t.Error("no permissions")
	}
	// OLM takes these kinds and a few more, and refuses a bundle with any other.
	kinds := []string{"ClusterServiceVersion", "CustomResourceDefinition", "ClusterRole", "Service"}
	files, err := filepath.Glob(filepath.Join(b.Dir, "manifests", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var object struct{ Kind string }
		if err := yaml.Unmarshal(content, &object); err != nil || !slices.Contains(kinds, object.Kind) {
			t.Errorf("%s: kind %q (%v)", file, object.Kind, err)
		}
	}
}

func TestABundlesImageHasItsLabelsAndOneDigest(t *testing.T) {
	var digests []string
	for range 2 {
		image, err := bundle(t).Image()
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Config.Labels["operators.operatorframework.io.bundle.package.v1"] != "chartgate" {
			t.Errorf("labels: %v", config.Config.Labels)
		}
		digest, err := ociimage.Digest(image)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("digests %v", digests)
	}
}

func TestPreReleasesAreCandidatesOnly(t *testing.T) {
	for version, want := range map[string][]string{
		"1.2.3":      {olm.ChannelStable, olm.ChannelCandidate},
		"1.2.3-rc.1": {olm.ChannelCandidate},
	} {
		if got, err := olm.Channels(version); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", version, got, err)
		}
	}
	if _, err := olm.Channels("v1"); err == nil {
		t.Error("v1 is no version")
	}
}

func TestDescriptorsMakeAForm(t *testing.T) {
	crds, err := bundle(t).CRDs()
	if err != nil {
		t.Fatal(err)
	}
	schema := crds["guestbooks.apps.chartgate.dev"].Spec.Versions[0].Schema.OpenAPIV3Schema
	spec, status := olm.SpecDescriptors(schema), olm.StatusDescriptors(schema)
	const widget = "urn:alm:descriptor:com.tectonic.ui:"
	for path, want := range map[string][]string{
		"replicaCount":                  {widget + "podCount"},
		"image.pullPolicy":              {widget + "fieldGroup:image", widget + "imagePullPolicy"},
		"resources":                     {widget + "resourceRequirements"},
		"service.type":                  {widget + "fieldGroup:service", widget + "select:ClusterIP", widget + "select:NodePort", widget + "select:LoadBalancer"},
		"ingress.enabled":               {widget + "fieldGroup:ingress", widget + "booleanSwitch"},
		"ingress.className":             {widget + "fieldDependency:ingress.enabled:true", widget + "fieldGroup:ingress", widget + "text"},
		"gates[0].mandatory":            {widget + "arrayFieldGroup:gates", widget + "booleanSwitch"},
		"affinity":                      {widget + "advanced"},
		"redis.leader.persistence.size": {widget + "fieldDependency:redis.leader.persistence.enabled:true", widget + "fieldGroup:redis.leader.persistence", widget + "text"},
	} {
		i := slices.IndexFunc(spec, func(d olm.Descriptor) bool { return d.Path == path })
		if i < 0 {
			t.Errorf("%s has no descriptor", path)
			continue
		}
		// Their order has no meaning, but for the values to choose from.
		got := slices.Clone(spec[i].XDescriptors)
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if spec[0].Path != "replicaCount" || spec[0].DisplayName != "Replica Count" {
		t.Errorf("first comes %+v", spec[0])
	}
	for i, want := range []string{"urn:alm:descriptor:io.kubernetes.phase", "urn:alm:descriptor:text", "urn:alm:descriptor:io.kubernetes.conditions"} {
		if !slices.Equal(status[i].XDescriptors, []string{want}) {
			t.Errorf("status: %d is %+v", i, status[i])
		}
	}
	seen := map[string]bool{}
	for _, d := range spec {
		if seen[d.Path] {
			t.Errorf("%s twice", d.Path)
		}
		seen[d.Path] = true
		if !exists(schema.Properties["spec"], d.Path) {
			t.Errorf("%s is no field", d.Path)
		}
	}
}

// exists tells whether a schema has a field at a path.
func exists(schema apiextensionsv1.JSONSchemaProps, path string) bool {
	for name := range strings.SplitSeq(path, ".") {
		name, list := strings.CutSuffix(name, "[0]")
		next, ok := schema.Properties[name]
		if !ok {
			return false
		}
		if schema = next; list {
			schema = *schema.Items.Schema
		}
	}
	return true
}
