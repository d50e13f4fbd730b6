// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/chartgate/chartgate/test/harness"
)

// databaseEnv is an environment in which Databases are served.
func databaseEnv(t *testing.T) *harness.Env {
	t.Helper()
	e := sideBySide(t)
	serveDatabases(e)
	return e
}

func serveDatabases(e *harness.Env) {
	e.Helper()
	e.Kubectl("apply", "--server-side", "-f", filepath.Join(e.Root(), "config/crd/bases/apps.chartgate.dev_databases.yaml"))
	e.Kubectl("wait", "--for=condition=Established", "crd/databases.apps.chartgate.dev")
}

// databaseOf is a Database of the test's namespace with the spec, which is YAML.
func databaseOf(e *harness.Env, name, spec string) *unstructured.Unstructured {
	e.Helper()
	obj := &unstructured.Unstructured{}
	text := fmt.Sprintf("apiVersion: apps.chartgate.dev/v1alpha1\nkind: Database\nmetadata: {name: %q, namespace: %q}\nspec: %s\n", name, e.Namespace, spec)
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		e.Fatal(err)
	}
	return obj
}

func TestDatabaseAdmissionRefusesAndTellsWhatToDo(t *testing.T) {
	e := databaseEnv(t)
	cases := map[string]struct{ name, spec, want string }{
		"a version that is a number":      {spec: `{version: 17}`, want: "spec.version"},
		"a version of words":              {spec: `{version: latest}`, want: "write its major version"},
		"an empty version":                {spec: `{version: ""}`, want: "write its major version"},
		"a version with a patch level":    {spec: `{version: "17.5.1"}`, want: "write its major version"},
		"a version that is too old":       {spec: `{version: "12.3"}`, want: "before 13 is not supported"},
		"a version of one digit":          {spec: `{version: "9"}`, want: "write its major version"},
		"an image with a space":           {spec: `{image: "a b"}`, want: "not an image reference"},
		"an image without its tag":        {spec: `{image: "postgres:"}`, want: "not an image reference"},
		"an image in capitals":            {spec: `{image: "Postgres"}`, want: "not an image reference"},
		"a pull secret without name":      {spec: `{imagePullSecrets: [{}]}`, want: "spec.imagePullSecrets[0].name: Required"},
		"a pull secret with a bad name":   {spec: `{imagePullSecrets: [{name: "A b"}]}`, want: "not a name of a Secret"},
		"a size that is no quantity":      {spec: `{storageSize: 10GB}`, want: "not a size for a database: write bytes"},
		"a size of nothing":               {spec: `{storageSize: 0}`, want: "256Mi at least"},
		"a size without its unit":         {spec: `{storageSize: 10}`, want: "256Mi at least"},
		"a negative size":                 {spec: `{storageSize: -1Gi}`, want: "256Mi at least"},
		"an empty size":                   {spec: `{storageSize: ""}`, want: "not a size for a database"},
		"a bad storage class":             {spec: `{storageClass: "Fast One"}`, want: "not a name of a StorageClass"},
		"no servers":                      {spec: `{replicas: 0}`, want: "greater than or equal to 1"},
		"too many servers":                {spec: `{replicas: 11}`, want: "less than or equal to 10"},
		"servers in words":                {spec: `{replicas: two}`, want: "spec.replicas"},
		"CPU that is no quantity":         {spec: `{resources: {requests: {cpu: few}}}`, want: "not an amount of CPU: write cores"},
		"a limit of no CPU":               {spec: `{resources: {limits: {cpu: 0}}}`, want: "1m at least"},
		"memory that is no quantity":      {spec: `{resources: {limits: {memory: 512MB}}}`, want: "not an amount of memory for PostgreSQL"},
		"memory in thousandths":           {spec: `{resources: {requests: {memory: 256m}}}`, want: "m means thousandths"},
		"a CPU request above the limit":   {spec: `{resources: {requests: {cpu: 2}, limits: {cpu: 1500m}}}`, want: "requests.cpu must not be above limits.cpu"},
		"memory above the default limit":  {spec: `{resources: {requests: {memory: 1Gi}}}`, want: "requests.memory must not be above limits.memory"},
		"a limit below the default":       {spec: `{resources: {limits: {memory: 128Mi}}}`, want: "lower the request or raise the limit"},
		"a bad node label":                {spec: `{nodeSelector: {"a b": c}}`, want: "a nodeSelector key is a node's label"},
		"a bad value of a node label":     {spec: `{nodeSelector: {a: "b c"}}`, want: "spec.nodeSelector.a"},
		"a toleration of an odd operator": {spec: `{tolerations: [{key: a, operator: Is}]}`, want: "operator of a toleration"},
		"a toleration of an odd effect":   {spec: `{tolerations: [{key: a, effect: Never}]}`, want: "effect of a toleration"},
		"a toleration of any key":         {spec: `{tolerations: [{value: a}]}`, want: "set operator to Exists, or name the key"},
		"a toleration that wants both":    {spec: `{tolerations: [{key: a, operator: Exists, value: b}]}`, want: "takes no value"},
		"seconds that don't count":        {spec: `{tolerations: [{key: a, operator: Exists, tolerationSeconds: 1}]}`, want: "is for effect NoExecute"},
		"affinity that is none":           {spec: `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}}`, want: "nodeSelectorTerms: Required"},
		"a database with a space":         {spec: `{database: "my app"}`, want: "not a name of a database"},
		"a database that begins with 1":   {spec: `{database: 1a}`, want: "not a name of a database"},
		"a database of no name":           {spec: `{database: ""}`, want: "not a name of a database"},
		"PostgreSQL's own database":       {spec: `{database: template1}`, want: "choose another name"},
		"a database with a long name":     {spec: `{database: ` + strings.Repeat("a", 64) + `}`, want: "spec.database: Too long"},
		"a bad Secret":                    {spec: `{credentials: {secretName: My_Secret}}`, want: "not a name of a Secret"},
		"a bad key":                       {spec: `{credentials: {secretName: a, usernameKey: "a/b"}}`, want: "not a key of a Secret"},
		"an empty key":                    {spec: `{credentials: {secretName: a, passwordKey: ""}}`, want: "spec.credentials.passwordKey"},
		"keys of no Secret":               {spec: `{credentials: {passwordKey: pass}}`, want: "set credentials.secretName to its name"},
		"a schedule of words":             {spec: `{backup: {enabled: true, schedule: nightly}}`, want: "write the five fields"},
		"a schedule of four fields":       {spec: `{backup: {schedule: "0 2 * *"}}`, want: "write the five fields"},
		"a schedule of six fields":        {spec: `{backup: {schedule: "0 0 2 * * *"}}`, want: "write the five fields"},
		"minute 60":                       {spec: `{backup: {schedule: "60 2 * * *"}}`, want: "write the five fields"},
		"hour 24":                         {spec: `{backup: {schedule: "0 24 * * *"}}`, want: "write the five fields"},
		"day 32":                          {spec: `{backup: {schedule: "0 2 32 * *"}}`, want: "write the five fields"},
		"month 13":                        {spec: `{backup: {schedule: "0 2 * 13 *"}}`, want: "write the five fields"},
		"weekday 7":                       {spec: `{backup: {schedule: "0 2 * * 7"}}`, want: "weekday (0 to 6)"},
		"a step of nothing":               {spec: `{backup: {schedule: "*/0 2 * * *"}}`, want: "write the five fields"},
		"a schedule with a zone":          {spec: `{backup: {schedule: "TZ=UTC 0 2 * * *"}}`, want: "write the five fields"},
		"backups that are not kept":       {spec: `{backup: {retention: 0}}`, want: "greater than or equal to 1"},
		"too many backups":                {spec: `{backup: {retention: 1001}}`, want: "less than or equal to 1000"},
		"a bad backup size":               {spec: `{backup: {storageSize: lots}}`, want: "not a size: write bytes"},
		"an exporter with a space":        {spec: `{monitoring: {image: "a b"}}`, want: "not an image reference"},
		"a policy nobody knows":           {spec: `{deletionPolicy: Keep}`, want: `"Retain", "Delete"`},
		"two gates of one name":           {spec: `{gates: [{name: a, type: ManualApproval}, {name: a, type: ManualApproval}]}`, want: "spec.gates[1]: Duplicate value"},
		"a misspelled field":              {spec: `{replica: 2}`, want: `unknown field "spec.replica"`},
		"a name with a dot":               {name: "a.b", spec: `{}`, want: "metadata.name also names Services"},
		"a name that begins with a digit": {name: "1a", spec: `{}`, want: "metadata.name also names Services"},
		"a name that is too long":         {name: strings.Repeat("a", 44), spec: `{}`, want: "at most 43 characters"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.name == "" {
				c.name = "shop"
			}
			err := e.Client.Create(e.Ctx, databaseOf(e, c.name, c.spec), client.DryRunAll, client.FieldValidation("Strict"))
			if err == nil {
				t.Fatal("it is taken")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("the message does not say %q: %v", c.want, err)
			}
			if strings.Contains(err.Error(), "rule cannot be evaluated") || strings.Contains(err.Error(), "evaluat") {
				t.Errorf("a rule can't be evaluated: %v", err)
			}
		})
	}
}

func TestDatabaseAdmissionTakes(t *testing.T) {
	e := databaseEnv(t)
	for name, c := range map[string]struct{ name, spec string }{
		"nothing":                       {spec: `{}`},
		"null":                          {spec: `null`},
		"a major version":               {spec: `{version: "13"}`},
		"a version in full":             {spec: `{version: "18.0"}`},
		"an image of a registry":        {spec: `{image: "registry.local:5000/team/postgres@sha256:` + strings.Repeat("0123456789abcdef", 4) + `"}`},
		"as many as there may be":       {spec: `{replicas: 10}`},
		"whole numbers as quantities":   {spec: `{storageSize: 10737418240, resources: {requests: {cpu: 1, memory: 536870912}, limits: {cpu: 2, memory: 8589934592}}}`},
		"fractions and exponents":       {spec: `{storageSize: 1.5Ti, resources: {requests: {cpu: "0.25", memory: 128e6}, limits: {memory: 1e9}}}`},
		"an empty class":                {spec: `{storageClass: ""}`},
		"a database in capitals":        {spec: `{database: My-App_1}`},
		"the database postgres":         {spec: `{database: postgres}`},
		"a Secret with keys":            {spec: `{credentials: {secretName: a.b-c, usernameKey: user.name, passwordKey: PASS_WORD}}`},
		"credentials of defaults":       {spec: `{credentials: {}}`},
		"a schedule of names":           {spec: `{backup: {enabled: true, schedule: "*/15 0-5,22 1-15/2 JAN,mar-dec Mon-fri"}}`},
		"a schedule with many spaces":   {spec: `{backup: {schedule: "0  2 * * ?"}}`},
		"a schedule by name":            {spec: `{backup: {schedule: "@weekly"}}`},
		"the longest name":              {name: strings.Repeat("a", 43), spec: `{}`},
		"a name that YAML reads as no":  {name: "no", spec: `{}`},
		"tolerations of all sorts":      {spec: `{tolerations: [{operator: Exists}, {key: a, value: b}, {key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]}`},
		"everything off that can be so": {spec: `{backup: {}, monitoring: {}, nodeSelector: {}, tolerations: [], imagePullSecrets: []}`},
	} {
		t.Run(name, func(t *testing.T) {
			if c.name == "" {
				c.name = "shop"
			}
			if err := e.Client.Create(e.Ctx, databaseOf(e, c.name, c.spec), client.DryRunAll, client.FieldValidation("Strict")); err != nil {
				t.Error(err)
			}
		})
	}
	for _, sample := range []string{"apps_v1alpha1_database.yaml", "apps_v1alpha1_database_full.yaml"} {
		e.Kubectl("apply", "-f", filepath.Join(e.Root(), "config/samples", sample))
	}
	if got := e.Kubectl("get", "db", "database-sample", "-o", "jsonpath={.spec.database} {.spec.deletionPolicy} {.spec.resources.limits.memory}"); got != "app Retain 512Mi" {
		t.Errorf("defaults: %s", got)
	}
}

func TestDatabaseAdmissionOfChanges(t *testing.T) {
	e := databaseEnv(t)
	const stored = `{version: "16.4", storageSize: 2Gi, storageClass: fast, database: shop, credentials: {secretName: mine}, backup: {enabled: true, storageSize: 2Gi}}`
	for name, c := range map[string]struct{ from, patch, want string }{
		"a newer minor version":            {from: stored, patch: `{"version":"16.6"}`},
		"an older minor version":           {from: stored, patch: `{"version":"16.1"}`},
		"any minor version":                {from: stored, patch: `{"version":"16"}`},
		"another major version":            {from: stored, patch: `{"version":"17.0"}`, want: "another major version of PostgreSQL can't read the data"},
		"an older major version":           {from: stored, patch: `{"version":"15"}`, want: "another major version of PostgreSQL can't read the data"},
		"the default major version":        {from: stored, patch: `{"version":null}`, want: "another major version of PostgreSQL can't read the data"},
		"storage that grows":               {from: stored, patch: `{"storageSize":"2.5Gi"}`},
		"the same size in other words":     {from: stored, patch: `{"storageSize":2147483648}`},
		"storage that shrinks":             {from: stored, patch: `{"storageSize":"2000Mi"}`, want: "storage can't shrink: keep storageSize"},
		"storage that shrinks to default":  {from: `{storageSize: 20Gi}`, patch: `{"storageSize":null}`, want: "storage can't shrink"},
		"storage that shrinks from number": {from: `{storageSize: 2147483648}`, patch: `{"storageSize":2147483647}`, want: "storage can't shrink"},
		"backups that grow":                {from: stored, patch: `{"backup":{"storageSize":"3Gi"}}`},
		"backups that shrink":              {from: stored, patch: `{"backup":{"storageSize":"1Gi"}}`, want: "keep backup.storageSize"},
		"backups turned off":               {from: stored, patch: `{"backup":null}`},
		"another class":                    {from: stored, patch: `{"storageClass":"slow"}`, want: "storageClass can't be changed"},
		"a class taken away":               {from: stored, patch: `{"storageClass":null}`, want: "storageClass can't be changed"},
		"a class where there was none":     {from: `{}`, patch: `{"storageClass":"slow"}`, want: "storageClass can't be changed"},
		"an empty class for none":          {from: `{}`, patch: `{"storageClass":""}`},
		"another database":                 {from: stored, patch: `{"database":"other"}`, want: "database can't be changed"},
		"the default database":             {from: stored, patch: `{"database":null}`, want: "database can't be changed"},
		"another Secret":                   {from: stored, patch: `{"credentials":{"secretName":"other"}}`, want: "credentials.secretName can't be changed"},
		"no Secret any more":               {from: stored, patch: `{"credentials":null}`, want: "credentials.secretName can't be changed"},
		"a Secret where there was none":    {from: `{}`, patch: `{"credentials":{"secretName":"other"}}`, want: "credentials.secretName can't be changed"},
		"an empty Secret for none":         {from: `{}`, patch: `{"credentials":{"secretName":""}}`},
		"other keys of the Secret":         {from: stored, patch: `{"credentials":{"usernameKey":"u","passwordKey":"p"}}`},
		"all else": {from: stored, patch: `{"image":"postgres:16.4-bookworm","replicas":5,"resources":{"limits":{"memory":"2Gi"}},"nodeSelector":{"a":"b"},
			"backup":{"schedule":"@daily","retention":1},"monitoring":{"enabled":true},"deletionPolicy":"Delete"}`},
	} {
		t.Run(name, func(t *testing.T) {
			obj := databaseOf(e, harness.Name("shop-"), c.from)
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

func TestDatabaseIsShown(t *testing.T) {
	e := databaseEnv(t)
	obj := databaseOf(e, "shop", `{replicas: 3}`)
	if err := e.Client.Create(e.Ctx, obj); err != nil {
		t.Fatal(err)
	}
	status := []byte(`{"status":{"currentReplicas":3,"readyReplicas":2,"currentVersion":"17.5","lastBackup":"2026-01-02T03:04:05Z","phase":"Updating","message":"2/3 replicas ready","revision":4}}`)
	if err := e.Client.Status().Patch(e.Ctx, obj, client.RawPatch(types.MergePatchType, status)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(e.Kubectl("get", "db"), "\n")
	if got := strings.Join(strings.Fields(lines[0]), " "); got != "NAME PHASE READY GATES REPLICAS SERVERS POSTGRESQL REVISION AGE" {
		t.Errorf("columns: %s", got)
	}
	if got := strings.Join(strings.Fields(lines[1])[:6], " "); got != "shop Updating 3 2 17.5 4" {
		t.Errorf("row: %s", lines[1])
	}
	wide := strings.Join(strings.Fields(strings.Split(e.Kubectl("get", "db", "-o", "wide"), "\n")[0]), " ")
	if wide != "NAME PHASE READY GATES REPLICAS SERVERS POSTGRESQL REVISION AGE LAST BACKUP CHART VERSION MESSAGE" {
		t.Errorf("wide columns: %s", wide)
	}
	if got := e.Kubectl("explain", "database.spec.storageSize"); !strings.Contains(got, "never shrink") {
		t.Errorf("kubectl explain: %s", got)
	}
}

// TestDatabaseObjectsAreTaken has the API server judge what the chart makes, in a namespace that
// enforces the restricted Pod Security Standard.
func TestDatabaseObjectsAreTaken(t *testing.T) {
	e := sideBySide(t)
	e.Kubectl("label", "namespace", e.Namespace, "pod-security.kubernetes.io/enforce=restricted", "pod-security.kubernetes.io/enforce-version=latest")
	values := filepath.Join(t.TempDir(), "values.yaml")
	e.WriteFile(values, `replicas: 3
resources: {requests: {cpu: 1m}, limits: {cpu: "2"}}
backup: {enabled: true}
monitoring: {enabled: true}
networkPolicy: {enabled: true, from: [{namespaceSelector: {}}]}
`)
	e.Helm("install", "shop", filepath.Join(e.Root(), "helm-charts/database"), "-f", values, "-n", e.Namespace)
	e.Eventually("the pods are made", func() error {
		// One that the standard refuses is never there.
		for _, set := range []string{"shop", "shop-standby"} {
			got := e.Kubectl("get", "statefulset", set, "-o", "jsonpath={.spec.replicas} {.status.replicas}")
			if want, made, _ := strings.Cut(got, " "); want != made {
				return fmt.Errorf("%s: %s", set, got)
			}
		}
		return nil
	})
	if got := e.Kubectl("get", "pvc", "-l", "chartgate.dev/database=shop", "-o", "name"); strings.Count(got, "persistentvolumeclaim/") != 4 {
		t.Errorf("claims of the database: %s", got)
	}
	before := e.Kubectl("get", "secret", "shop-credentials", "-o", "jsonpath={.data}")
	for i := range 2 {
		e.Helm("upgrade", "shop", filepath.Join(e.Root(), "helm-charts/database"), "-f", values, "-n", e.Namespace, "--set", fmt.Sprintf("replicas=%d", i+1))
	}
	e.Helm("rollback", "shop", "1", "-n", e.Namespace)
	e.Helm("uninstall", "shop", "-n", e.Namespace)
	e.Helm("install", "shop", filepath.Join(e.Root(), "helm-charts/database"), "-n", e.Namespace)
	if after := e.Kubectl("get", "secret", "shop-credentials", "-o", "jsonpath={.data}"); after != before {
		t.Error("the password is another one after upgrades, a rollback, and an uninstall")
	}
}
