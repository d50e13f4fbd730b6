// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/test/harness"
)

// webAppEnv is an environment in which WebApps are served.
func webAppEnv(t *testing.T) *harness.Env {
	t.Helper()
	e := sideBySide(t)
	serveWebApps(e)
	return e
}

func serveWebApps(e *harness.Env) {
	e.Helper()
	e.Kubectl("apply", "--server-side", "-f", filepath.Join(e.Root(), "config/crd/bases/apps.chartgate.dev_webapps.yaml"))
	e.Kubectl("wait", "--for=condition=Established", "crd/webapps.apps.chartgate.dev")
}

// webApp is a WebApp of the test's namespace with the spec, which is YAML.
func webApp(e *harness.Env, name, spec string) *unstructured.Unstructured {
	e.Helper()
	obj := &unstructured.Unstructured{}
	text := fmt.Sprintf("apiVersion: apps.chartgate.dev/v1alpha1\nkind: WebApp\nmetadata: {name: %q, namespace: %q}\nspec: %s\n", name, e.Namespace, spec)
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		e.Fatal(err)
	}
	return obj
}

func TestWebAppAdmissionRefusesAndTellsWhatToDo(t *testing.T) {
	e := webAppEnv(t)
	long := strings.Repeat("a", 64)
	cases := map[string]struct{ name, spec, want string }{
		"no image":                    {spec: `{}`, want: "spec.image: Required value"},
		"an empty image":              {spec: `{image: ""}`, want: "image must not be empty"},
		"an image with a space":       {spec: `{image: "a b"}`, want: "not an image reference"},
		"an image in capitals":        {spec: `{image: "Nginx"}`, want: "not an image reference"},
		"an image without its tag":    {spec: `{image: "nginx:"}`, want: "not an image reference"},
		"an image by its address":     {spec: `{image: "https://ghcr.io/a/b"}`, want: "not an image reference"},
		"too many replicas":           {spec: `{image: a, replicas: 101}`, want: "less than or equal to 100"},
		"negative replicas":           {spec: `{image: a, replicas: -1}`, want: "greater than or equal to 0"},
		"replicas that are no number": {spec: `{image: a, replicas: two}`, want: "spec.replicas"},
		"port 0":                      {spec: `{image: a, port: 0}`, want: "greater than or equal to 1"},
		"a port beyond the last":      {spec: `{image: a, port: 65536}`, want: "less than or equal to 65535"},
		"CPU that is no quantity":     {spec: `{image: a, resources: {requests: {cpu: few}}}`, want: "not an amount of CPU: write cores"},
		"negative CPU":                {spec: `{image: a, resources: {requests: {cpu: -1}}}`, want: "not an amount of CPU"},
		"a limit of no CPU":           {spec: `{image: a, resources: {requests: {cpu: 0}, limits: {cpu: 0}}}`, want: "above 0"},
		"memory that is no quantity":  {spec: `{image: a, resources: {limits: {memory: 128MB}}}`, want: "not an amount of memory: write bytes"},
		"memory in thousandths":       {spec: `{image: a, resources: {requests: {memory: 64m}}}`, want: "m means thousandths"},
		"a CPU request above the limit": {spec: `{image: a, resources: {requests: {cpu: 2}, limits: {cpu: 1500m}}}`,
			want: "requests.cpu must not be above limits.cpu: lower the request or raise the limit"},
		"memory above the default limit": {spec: `{image: a, resources: {requests: {memory: 1Gi}}}`, want: "requests.memory must not be above limits.memory"},
		"a limit below the default":      {spec: `{image: a, resources: {limits: {cpu: 10m}}}`, want: "requests.cpu must not be above limits.cpu"},
		"a variable that begins with 1":  {spec: `{image: a, config: {"1A": x}}`, want: "config names become environment variables"},
		"a variable with a sign":         {spec: `{image: a, config: {"A=B": x}}`, want: "config names become environment variables"},
		"a variable without a name":      {spec: `{image: a, config: {"": x}}`, want: "config names become environment variables"},
		"a variable of dots":             {spec: `{image: a, config: {"..a": x}}`, want: "config names become environment variables"},
		"a variable that is a number":    {spec: `{image: a, config: {A: 1}}`, want: "spec.config.A"},
		"a host that is an address":      {spec: `{image: a, ingress: {enabled: true, host: "http://a.b"}}`, want: "not a host name: write a DNS name"},
		"a host with a port":             {spec: `{image: a, ingress: {enabled: true, host: "a.b:80"}}`, want: "not a host name"},
		"a host in capitals":             {spec: `{image: a, ingress: {enabled: true, host: "A.b"}}`, want: "not a host name"},
		"a host that is an IP":           {spec: `{image: a, ingress: {enabled: true, host: "10.0.0.1"}}`, want: "not a host name"},
		"a wildcard in the middle":       {spec: `{image: a, ingress: {enabled: true, host: "a.*.b"}}`, want: "not a host name"},
		"an ingress without host":        {spec: `{image: a, ingress: {enabled: true}}`, want: "an enabled ingress needs a host: set ingress.host"},
		"an ingress with an empty host":  {spec: `{image: a, ingress: {enabled: true, host: ""}}`, want: "an enabled ingress needs a host"},
		"TLS without a Secret":           {spec: `{image: a, ingress: {enabled: true, host: a.b, tls: {enabled: true}}}`, want: "set tls.secretName"},
		"TLS with a bad Secret":          {spec: `{image: a, ingress: {enabled: true, host: a.b, tls: {enabled: true, secretName: A_b}}}`, want: "not a name of a Secret"},
		"a bad class":                    {spec: `{image: a, ingress: {className: "a b"}}`, want: "not a name of an IngressClass"},
		"a bad annotation":               {spec: `{image: a, ingress: {annotations: {"a b": c}}}`, want: "an annotation's key"},
		"a size that is no quantity":     {spec: `{image: a, storage: {enabled: true, size: 10GB}}`, want: "not a size: write bytes"},
		"a size of nothing":              {spec: `{image: a, storage: {enabled: true, size: 0}}`, want: "not a size"},
		"a negative size":                {spec: `{image: a, storage: {enabled: true, size: -1Gi}}`, want: "not a size"},
		"a bad storage class":            {spec: `{image: a, storage: {enabled: true, storageClass: "Fast One"}}`, want: "not a name of a StorageClass"},
		"a relative mount path":          {spec: `{image: a, storage: {enabled: true, mountPath: data}}`, want: "has to be an absolute path"},
		"the root as mount path":         {spec: `{image: a, storage: {enabled: true, mountPath: /}}`, want: "has to be an absolute path"},
		"a mount path that climbs":       {spec: `{image: a, storage: {enabled: true, mountPath: /a/..}}`, want: "must not contain"},
		"a mount path with a colon":      {spec: `{image: a, storage: {enabled: true, mountPath: "/a:b"}}`, want: "must not contain"},
		"an unknown access mode":         {spec: `{image: a, storage: {enabled: true, accessMode: RWO}}`, want: `"ReadWriteOnce"`},
		"two pods on a volume for one":   {spec: `{image: a, replicas: 2, storage: {enabled: true, accessMode: ReadWriteOncePod}}`, want: "a ReadWriteOncePod volume is for one pod: set replicas to 1 or 0"},
		"storage at the scratch disk": {spec: `{image: a, storage: {enabled: true, mountPath: /tmp}, securityContext: {readOnlyRootFilesystem: true}}`,
			want: "set storage.mountPath to another path"},
		"an unknown profile":              {spec: `{image: a, securityContext: {profile: Privileged}}`, want: `"Baseline", "Restricted"`},
		"root where it is forbidden":      {spec: `{image: a, securityContext: {profile: Restricted, runAsUser: 0}}`, want: "profile Restricted forbids root"},
		"a negative user":                 {spec: `{image: a, securityContext: {runAsUser: -1}}`, want: "greater than or equal to 0"},
		"a relative probe path":           {spec: `{image: a, probe: {path: healthz}}`, want: "probe.path begins with /"},
		"a probe without a pause":         {spec: `{image: a, probe: {periodSeconds: 0}}`, want: "greater than or equal to 1"},
		"a probe of port 0":               {spec: `{image: a, probe: {port: 0}}`, want: "greater than or equal to 1"},
		"a bad node label":                {spec: `{image: a, nodeSelector: {"a b": c}}`, want: "a nodeSelector key is a node's label"},
		"a bad value of a node label":     {spec: `{image: a, nodeSelector: {a: "b c"}}`, want: "spec.nodeSelector.a"},
		"a toleration of an odd operator": {spec: `{image: a, tolerations: [{key: a, operator: Is}]}`, want: "operator of a toleration"},
		"a toleration of an odd effect":   {spec: `{image: a, tolerations: [{key: a, effect: Never}]}`, want: "effect of a toleration"},
		"a toleration of any key":         {spec: `{image: a, tolerations: [{value: a}]}`, want: "set operator to Exists, or name the key"},
		"a toleration that wants both":    {spec: `{image: a, tolerations: [{key: a, operator: Exists, value: b}]}`, want: "takes no value"},
		"seconds that don't count":        {spec: `{image: a, tolerations: [{key: a, operator: Exists, tolerationSeconds: 1}]}`, want: "is for effect NoExecute"},
		"a pull secret without name":      {spec: `{image: a, imagePullSecrets: [{}]}`, want: "spec.imagePullSecrets[0].name: Required"},
		"a pull secret with a bad name":   {spec: `{image: a, imagePullSecrets: [{name: "A b"}]}`, want: "not a name of a Secret"},
		"a peer of nothing":               {spec: `{image: a, networkPolicy: {enabled: true, from: [{}]}}`, want: "each peer in networkPolicy.from"},
		"a peer of too much":              {spec: `{image: a, networkPolicy: {enabled: true, from: [{ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}]}}`, want: "each peer in networkPolicy.from"},
		"affinity that is none":           {spec: `{image: a, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}}`, want: "nodeSelectorTerms: Required"},
		"two gates of one name":           {spec: `{image: a, gates: [{name: a, type: ManualApproval}, {name: a, type: ManualApproval}]}`, want: "spec.gates[1]: Duplicate value"},
		"a gate named as a condition":     {spec: `{image: a, gates: [{name: Ready, type: ManualApproval}]}`, want: "choose another gate name"},
		"a field that is unknown":         {spec: `{image: a, replica: 2}`, want: `unknown field "spec.replica"`},
		"a name with a dot":               {name: "a.b", spec: `{image: a}`, want: "metadata.name also names a Service"},
		"a name that begins with a digit": {name: "1a", spec: `{image: a}`, want: "metadata.name also names a Service"},
		"a name that is too long":         {name: long, spec: `{image: a}`, want: "at most 63 characters"},
		"a name that is taken":            {name: "default", spec: `{image: a}`, want: "metadata.name also names a ServiceAccount"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.name == "" {
				c.name = "shop"
			}
			err := e.Client.Create(e.Ctx, webApp(e, c.name, c.spec), client.DryRunAll, client.FieldValidation("Strict"))
			if err == nil {
				t.Fatal("it is taken")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("the message does not say %q: %v", c.want, err)
			}
		})
	}
}

func TestWebAppAdmissionTakes(t *testing.T) {
	e := webAppEnv(t)
	digest := strings.Repeat("0123456789abcdef", 4)
	for name, c := range map[string]struct{ name, spec string }{
		"an image alone":               {spec: `{image: nginx}`},
		"image and replicas":           {spec: `{image: "nginx:1.27", replicas: 3}`},
		"no replicas":                  {spec: `{image: nginx, replicas: 0}`},
		"as many as there may be":      {spec: `{image: nginx, replicas: 100, port: 65535}`},
		"an image of a registry":       {spec: `{image: "registry.local:5000/team/shop_web:v1.2.3-rc.1@sha256:` + digest + `"}`},
		"an image of an IPv6 registry": {spec: `{image: "[fd00::1]:5000/shop"}`},
		"whole numbers as quantities":  {spec: `{image: a, resources: {requests: {cpu: 1, memory: 134217728}, limits: {cpu: 2, memory: 8589934592}}}`},
		"fractions and exponents":      {spec: `{image: a, resources: {requests: {cpu: "0.05", memory: 64e6}, limits: {cpu: "1.5", memory: 1.5Gi}}}`},
		"no CPU asked for":             {spec: `{image: a, resources: {requests: {cpu: 0}}}`},
		"odd names of variables":       {spec: `{image: a, config: {LOG_LEVEL: "", log.level: x, a-b: b, _: z, .c: d}}`},
		"a wildcard host":              {spec: `{image: a, ingress: {enabled: true, host: "*.example.com", tls: {enabled: true, secretName: wild.tls}}}`},
		"a host of digits and letters": {spec: `{image: a, ingress: {enabled: true, host: "1.2.3.4.example"}}`},
		"settings of what is off":      {spec: `{image: a, ingress: {host: a.b, tls: {secretName: s}}, storage: {size: 5Gi, accessMode: ReadWriteOncePod}, networkPolicy: {}}`},
		"a volume for one pod":         {spec: `{image: a, storage: {enabled: true, accessMode: ReadWriteOncePod, mountPath: /a..b/.c}}`},
		"pods on one node":             {spec: `{image: a, replicas: 3, storage: {enabled: true}}`},
		"a restricted user":            {spec: `{image: a, securityContext: {profile: Restricted, runAsUser: 1, readOnlyRootFilesystem: true}}`},
		"root in a baseline pod":       {spec: `{image: a, securityContext: {runAsUser: 0}}`},
		"tolerations of all sorts":     {spec: `{image: a, tolerations: [{operator: Exists}, {key: a, value: b}, {key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]}`},
		"node labels of all sorts":     {spec: `{image: a, nodeSelector: {kubernetes.io/arch: amd64, disk: "", a_b.c: D-e}}`},
		"peers of all sorts":           {spec: `{image: a, networkPolicy: {enabled: true, from: [{podSelector: {}}, {namespaceSelector: {}, podSelector: {}}, {ipBlock: {cidr: 10.0.0.0/8}}]}}`},
		"the longest name":             {name: strings.Repeat("a", 63), spec: `{image: a}`},
		"a name that YAML reads as no": {name: "no", spec: `{image: a}`},
	} {
		t.Run(name, func(t *testing.T) {
			if c.name == "" {
				c.name = "shop"
			}
			if err := e.Client.Create(e.Ctx, webApp(e, c.name, c.spec), client.DryRunAll, client.FieldValidation("Strict")); err != nil {
				t.Error(err)
			}
		})
	}
	for _, sample := range []string{"apps_v1alpha1_webapp.yaml", "apps_v1alpha1_webapp_full.yaml"} {
		e.Kubectl("apply", "-f", filepath.Join(e.Root(), "config/samples", sample))
	}
}

func TestWebAppAdmissionOfChanges(t *testing.T) {
	e := webAppEnv(t)
	const stored = `{image: a, storage: {enabled: true, size: 2Gi, storageClass: fast}}`
	for name, c := range map[string]struct{ from, patch, want string }{
		"storage that grows":               {from: stored, patch: `{"storage":{"size":"2.5Gi"}}`},
		"the same size in other words":     {from: stored, patch: `{"storage":{"size":"2048Mi"}}`},
		"storage that shrinks":             {from: stored, patch: `{"storage":{"size":"2000Mi"}}`, want: "storage can't shrink"},
		"storage that shrinks to default":  {from: stored, patch: `{"storage":{"size":null}}`, want: "storage can't shrink"},
		"storage that shrinks while off":   {from: `{image: a, storage: {size: 2Gi}}`, patch: `{"storage":{"size":"1Gi"}}`},
		"storage turned off":               {from: stored, patch: `{"storage":{"enabled":false,"size":"1Gi","storageClass":"slow"}}`},
		"storage removed":                  {from: stored, patch: `{"storage":null}`},
		"another class":                    {from: stored, patch: `{"storage":{"storageClass":"slow"}}`, want: "storage.storageClass can't be changed"},
		"a class taken away":               {from: stored, patch: `{"storage":{"storageClass":null}}`, want: "storage.storageClass can't be changed"},
		"a class where there was none":     {from: `{image: a, storage: {enabled: true}}`, patch: `{"storage":{"storageClass":"slow"}}`, want: "storage.storageClass can't be changed"},
		"an empty class for none":          {from: `{image: a, storage: {enabled: true}}`, patch: `{"storage":{"storageClass":""}}`},
		"another access mode":              {from: stored, patch: `{"storage":{"accessMode":"ReadWriteMany"}}`, want: "storage.accessMode can't be changed"},
		"another mount path":               {from: stored, patch: `{"storage":{"mountPath":"/srv"}}`},
		"all else":                         {from: stored, patch: `{"image":"b","replicas":7,"port":81,"config":{"A":"b"}}`},
		"more pods than the volume allows": {from: `{image: a, storage: {enabled: true, accessMode: ReadWriteOncePod}}`, patch: `{"replicas":2}`, want: "a ReadWriteOncePod volume is for one pod"},
	} {
		t.Run(name, func(t *testing.T) {
			obj := webApp(e, harness.Name("shop-"), c.from)
			if err := e.Client.Create(e.Ctx, obj); err != nil {
				t.Fatal(err)
			}
			err := e.Client.Patch(e.Ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"spec":`+c.patch+`}`)))
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the message does not say %q: %v", c.want, err)
			}
		})
	}
}

func TestWebAppIsScaledAndShown(t *testing.T) {
	e := webAppEnv(t)
	obj := webApp(e, "shop", `{image: "nginx:1.27"}`)
	if err := e.Client.Create(e.Ctx, obj); err != nil {
		t.Fatal(err)
	}
	e.Kubectl("scale", "webapp", "shop", "--replicas=5")
	if got := e.Kubectl("get", "wa", "shop", "-o", "jsonpath={.spec.replicas}"); got != "5" {
		t.Errorf("replicas after kubectl scale: %s", got)
	}
	scale := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{"replicas": int64(101)}}}
	if err := e.Client.SubResource("scale").Update(e.Ctx, obj, client.WithSubResourceBody(scale)); err == nil || !strings.Contains(err.Error(), "100") {
		t.Errorf("a scale beyond the most: %v", err)
	}
	status := []byte(`{"status":{"replicas":3,"readyReplicas":2,"selector":"app=shop,app.kubernetes.io/name=webapp","phase":"Updating","message":"2/3 replicas ready"}}`)
	if err := e.Client.Status().Patch(e.Ctx, obj, client.RawPatch(types.MergePatchType, status)); err != nil {
		t.Fatal(err)
	}
	read := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale"}}
	if err := e.Client.SubResource("scale").Get(e.Ctx, obj, read); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(read.Object["status"]); got != "map[replicas:3 selector:app=shop,app.kubernetes.io/name=webapp]" {
		t.Errorf("status of the scale: %s", got)
	}
	lines := strings.Split(e.Kubectl("get", "chartgate"), "\n")
	if got := strings.Join(strings.Fields(lines[0]), " "); got != "NAME DESIRED READY PHASE AGE" {
		t.Errorf("columns: %s", got)
	}
	if got := strings.Fields(lines[1]); len(got) != 5 || got[1] != "5" || got[2] != "2" || got[3] != "Updating" {
		t.Errorf("row: %v", got)
	}
	wide := strings.Join(strings.Fields(strings.Split(e.Kubectl("get", "wa", "-o", "wide"), "\n")[0]), " ")
	if wide != "NAME DESIRED READY PHASE AGE IMAGE GATES REVISION CHART VERSION MESSAGE" {
		t.Errorf("wide columns: %s", wide)
	}
	if got := e.Kubectl("explain", "webapp.spec.storage.enabled"); !strings.Contains(strings.Join(strings.Fields(got), " "), "Turning it off deletes the claim and the data.") {
		t.Errorf("kubectl explain: %s", got)
	}
}

// TestWebAppObjectsAreTaken has the API server judge what the chart makes: each object as it stands,
// and a pod of the Deployment by the Pod Security Standard that its profile is named after.
func TestWebAppObjectsAreTaken(t *testing.T) {
	e := sideBySide(t)
	folder := filepath.Join(e.Root(), "internal/translate/webapp/testdata/golden")
	files, err := filepath.Glob(filepath.Join(folder, "*.manifests.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden manifests: %v", err)
	}
	for _, profile := range []string{"baseline", "restricted"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: harness.Name(profile + "-"), Labels: map[string]string{"pod-security.kubernetes.io/enforce": profile},
		}}
		if err := e.Client.Create(e.Ctx, ns); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Client.Delete(context.Background(), ns) })
		e.Kubectl("wait", "--for=create", "serviceaccount/default", "--namespace", ns.Name)
		for _, file := range files {
			restricted := strings.HasPrefix(filepath.Base(file), "restricted")
			if restricted != (profile == "restricted") {
				continue
			}
			t.Run(filepath.Base(file), func(t *testing.T) {
				e.Kubectl("apply", "--server-side", "--dry-run=server", "-f", file)
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: ns.Name}, Spec: deploymentOf(t, file).Spec.Template.Spec}
				pod.Spec.ServiceAccountName = ""
				if err := e.Client.Create(e.Ctx, pod, client.DryRunAll); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func deploymentOf(t *testing.T, file string) *appsv1.Deployment {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(string(data), "\n---\n") {
		d := &appsv1.Deployment{}
		if strings.Contains(doc, "\nkind: Deployment\n") {
			if err := yaml.Unmarshal([]byte(doc), d); err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatalf("no Deployment in %s", file)
	return nil
}
