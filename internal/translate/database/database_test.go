// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestTranslateAndRender(t *testing.T) {
	full, err := os.ReadFile("../../../config/samples/apps_v1alpha1_database_full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	everything := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(full, &everything.Object); err != nil {
		t.Fatal(err)
	}
	for name, obj := range map[string]*unstructured.Unstructured{
		"nothing":    database(t, "shop", `{}`),
		"everything": everything,
		"turned-off": database(t, "shop", `{credentials: {}, backup: {enabled: false, schedule: "@daily"}, monitoring: {enabled: false, image: a}, affinity: {}, tolerations: [], nodeSelector: {}, imagePullSecrets: []}`),
		"odd-names":  database(t, "null", `{version: "15.4", database: "on", nodeSelector: {a: "1"}, storageClass: "true", replicas: 2, storageSize: 1073741824}`),
	} {
		t.Run(name, func(t *testing.T) {
			before := obj.DeepCopy()
			values := mustTranslate(t, obj)
			if diff := cmp.Diff(before, obj); diff != "" {
				t.Error("the resource was changed: " + diff)
			}
			data, err := yaml.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".values.yaml", string(data))
			mustRender(t, values)
			text, err := manifests(values)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".manifests.yaml", withoutScripts(password.ReplaceAllString(text, `password: "<random>"`)))
			for range 20 {
				again, err := yaml.Marshal(mustTranslate(t, obj))
				if err != nil || string(again) != string(data) {
					t.Fatalf("the same resource translates differently (%v):\n%s", err, cmp.Diff(string(data), string(again)))
				}
			}
		})
	}
}

// scripts matches the scripts' text and their digest, which have files of their own.
var scripts = regexp.MustCompile(`(?s)(\n  [a-z_]+\.(?:sh|conf): \|\n)(?:    [^\n]*\n|\n)*`)

func withoutScripts(text string) string {
	text = scripts.ReplaceAllString(text, "$1    <script>\n")
	return regexp.MustCompile(`chartgate.dev/scripts: [0-9a-f]{64}`).ReplaceAllString(text, "chartgate.dev/scripts: <digest>")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (rewrite it with -update): %s", path, diff)
	}
}

func TestErrorsNameTheField(t *testing.T) {
	for name, c := range map[string]struct{ name, spec, want string }{
		"a spec that is a list":       {spec: `[]`, want: "spec has to be a map"},
		"a number as version":         {spec: `{version: 17}`, want: "spec.version: a number does not fit"},
		"a version that is old":       {spec: `{version: "9"}`, want: "spec.version"},
		"a version before 13":         {spec: `{version: "12"}`, want: "spec.version"},
		"an image with a space":       {spec: `{image: "a b"}`, want: "spec.image"},
		"a size of no unit":           {spec: `{storageSize: 10GB}`, want: `spec.storageSize: "10GB" is not an amount`},
		"a size that is a list":       {spec: `{storageSize: []}`, want: "spec.storageSize has to be an amount"},
		"a size too small":            {spec: `{storageSize: 1Mi}`, want: "spec.storageSize"},
		"a class with a space":        {spec: `{storageClass: "a b"}`, want: "spec.storageClass"},
		"no replicas":                 {spec: `{replicas: 0}`, want: "spec.replicas"},
		"replicas in words":           {spec: `{replicas: two}`, want: "spec.replicas: a string does not fit, it has to be a whole number"},
		"CPU that is none":            {spec: `{resources: {requests: {cpu: few}}}`, want: "spec.resources.requests.cpu"},
		"memory of nothing":           {spec: `{resources: {limits: {memory: 0}}}`, want: "spec.resources.limits.memory"},
		"a request above the limit":   {spec: `{resources: {requests: {memory: 1Gi}}}`, want: "spec.resources.requests.memory"},
		"CPU above the limit":         {spec: `{resources: {requests: {cpu: 2}, limits: {cpu: 1}}}`, want: "spec.resources.requests.cpu"},
		"a database of SQL":           {spec: `{database: "a;b"}`, want: "spec.database"},
		"a database of PostgreSQL's":  {spec: `{database: template1}`, want: "spec.database"},
		"a Secret in capitals":        {spec: `{credentials: {secretName: A}}`, want: "spec.credentials.secretName"},
		"a key with a slash":          {spec: `{credentials: {secretName: a, passwordKey: a/b}}`, want: "spec.credentials.passwordKey"},
		"a schedule of words":         {spec: `{backup: {enabled: true, schedule: daily}}`, want: "spec.backup.schedule"},
		"a schedule with a zone":      {spec: `{backup: {enabled: true, schedule: "TZ=UTC"}}`, want: "spec.backup.schedule"},
		"a range that runs backwards": {spec: `{backup: {enabled: true, schedule: "0 5-2 * * *"}}`, want: "spec.backup.schedule"},
		"backups that are not kept":   {spec: `{backup: {enabled: true, retention: 0}}`, want: "spec.backup.retention"},
		"a backup volume of nothing":  {spec: `{backup: {enabled: true, storageSize: 0}}`, want: "spec.backup.storageSize"},
		"a policy nobody knows":       {spec: `{deletionPolicy: Keep}`, want: "spec.deletionPolicy"},
		"a pull secret of no name":    {spec: `{imagePullSecrets: [{}]}`, want: "spec.imagePullSecrets[0].name"},
		"a field that does not exist": {spec: `{backup: {every: 1h}}`, want: "spec.backup.every"},
		"a name that is too long":     {name: strings.Repeat("a", 44), spec: `{}`, want: "metadata.name"},
		"a name with a dot":           {name: "a.b", spec: `{}`, want: "metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.name == "" {
				c.name = "shop"
			}
			values, err := Translator{}.Translate(database(t, c.name, c.spec))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q; values %v", err, c.want, values)
			}
		})
	}
}

func TestDeletionPolicyChangesNothingThatIsReleased(t *testing.T) {
	keep, remove := mustTranslate(t, database(t, "shop", `{deletionPolicy: Retain}`)), mustTranslate(t, database(t, "shop", `{deletionPolicy: Delete}`))
	if diff := cmp.Diff(keep, remove); diff != "" {
		t.Error(diff)
	}
}

func TestPasswordIsRandomAndLong(t *testing.T) {
	seen := map[string]bool{}
	for range 5 {
		secret := mustRender(t, mustTranslate(t, database(t, "shop", `{}`))).secrets["shop-credentials"]
		if string(secret.Data["username"]) != "admin" || len(secret.Data["password"]) < 32 || seen[string(secret.Data["password"])] {
			t.Errorf("username %s, password of %d characters", secret.Data["username"], len(secret.Data["password"]))
		}
		seen[string(secret.Data["password"])] = true
	}
}

func TestReplicasTouchOnlyStandbys(t *testing.T) {
	one, three := mustRender(t, mustTranslate(t, database(t, "shop", `{}`))), mustRender(t, mustTranslate(t, database(t, "shop", `{replicas: 3}`)))
	if diff := cmp.Diff(one.sets["shop"], three.sets["shop"]); diff != "" {
		t.Error("the primary restarts: " + diff)
	}
	four := mustRender(t, mustTranslate(t, database(t, "shop", `{replicas: 4}`)))
	if diff := cmp.Diff(three.sets["shop-standby"].Spec.Template, four.sets["shop-standby"].Spec.Template); diff != "" {
		t.Error("the standbys restart: " + diff)
	}
}
