// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/base64"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// canary is a value that no plan may show, in none of its forms.
const canary = "canary-Zx9!q w\"7"

func TestPlansAreAsTheyWere(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.released.yaml")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range cases {
		name := strings.TrimSuffix(filepath.Base(file), ".released.yaml")
		t.Run(name, func(t *testing.T) {
			read := func(suffix string) string {
				content, err := os.ReadFile(filepath.Join("testdata", name+suffix))
				if err != nil {
					t.Fatal(err)
				}
				encoded := base64.StdEncoding.EncodeToString([]byte(canary))
				return strings.NewReplacer("CANARY64", encoded, "CANARY", strings.ReplaceAll(canary, `"`, `\"`)).Replace(string(content))
			}
			p, err := New("0123456789abcdef", read(".released.yaml"), read(".pending.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			got := p.Summary() + "\n\n" + p.Diff
			for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary)), "canary-Zx9"} {
				if strings.Contains(got, form) {
					t.Errorf("the plan shows %q:\n%s", form, got)
				}
			}
			golden := filepath.Join("testdata", name+".golden.txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the plan changed; if it should, run with -update:\n%s", diff)
			}
		})
	}
}

// TestNoPlanShowsWhatASecretHolds hides a random value in random places.
func TestNoPlanShowsWhatASecretHolds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		secret := randomText(random, 8+random.IntN(24))
		before, after := manifestWith(random, secret), manifestWith(random, secret)
		p, err := New("d", before, after)
		if err != nil {
			t.Fatal(err)
		}
		checkHidden(t, p, secret)
	}
}

func checkHidden(t *testing.T, p Plan, secret string) {
	t.Helper()
	for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
		if strings.Contains(strings.ReplaceAll(p.Diff, Redacted, ""), form) {
			t.Fatalf("the plan shows %q:\n%s", form, p.Diff)
		}
	}
	// Quoting and folding of YAML may hide it from the search above.
	for line := range strings.Lines(p.Diff) {
		var value any
		if yaml.Unmarshal([]byte(strings.TrimLeft(line, "+- ")), &value) == nil && strings.Contains(fmt.Sprint(value), secret) {
			t.Fatalf("the plan shows %q in %q", secret, line)
		}
	}
}

func randomText(random *rand.Rand, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!\"'#%&/()=?{}[]:;,. \n\t\\äß"
	runes := []rune(letters)
	out := make([]rune, 0, n)
	for range n {
		out = append(out, runes[random.IntN(len(runes))])
	}
	return "S" + string(out) + "E"
}

// manifestWith is a manifest that holds the secret in a Secret and, perhaps, elsewhere.
func manifestWith(random *rand.Rand, secret string) string {
	maybe := func(s string) string {
		switch random.IntN(4) {
		case 0:
			return "nothing"
		case 1:
			return "x" + s + "y"
		case 2:
			return base64.StdEncoding.EncodeToString([]byte(s))
		default:
			return s
		}
	}
	objects := []map[string]any{
		{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s"},
			"data":       map[string]any{"a": base64.StdEncoding.EncodeToString([]byte(secret)), "r": fmt.Sprint(random.Int())},
			"stringData": map[string]any{"b": secret},
		},
		{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
				"name": "c", "annotations": map[string]any{"note": maybe(secret)},
			},
			"data": map[string]any{"k" + maybe(secret): maybe(secret), "n": fmt.Sprint(random.Int())},
		},
		{
			"apiVersion": "v1", "kind": "List", "items": []any{map[string]any{
				"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": maybe(secret)},
				"spec": map[string]any{"args": []any{maybe(secret), random.IntN(9), maybe(secret)}},
			}},
		},
	}
	var out strings.Builder
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			panic(err)
		}
		out.WriteString("---\n" + string(text))
	}
	return out.String()
}

func FuzzPlan(f *testing.F) {
	f.Add("kind: A\n", "kind: Secret\ndata: {a: Yg==}\n---\nkind: List\nitems: [1, {kind: B}]\n")
	f.Add("", "- a\n")
	f.Add("kind: Secret\nstringData: [hunter22]\n", "kind: ConfigMap\ndata: {x: hunter22}\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "fuzzed-SECRET-value"
		holder := "\n---\nkind: Secret\nmetadata: {name: fuzz-holder}\nstringData: {v: " + secret + "}\n"
		p, err := New("d", before, after+holder)
		if err != nil {
			return
		}
		if strings.Contains(p.Diff, secret) {
			t.Errorf("the plan shows a secret:\n%s", p.Diff)
		}
	})
}

func TestErrorsQuoteNothing(t *testing.T) {
	for _, bad := range []string{"kind: Secret\nstringData: {a: " + "hunter22, b: [}\n", "- hunter22\n", "hunter22"} {
		_, err := New("d", "", bad)
		if err == nil || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestTheConfigMapIsBoundedAndSaysSo(t *testing.T) {
	var long strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&long, "---\nkind: ConfigMap\nmetadata: {name: c%d}\ndata: {a: äöü}\n", i)
	}
	p, err := New("d", "", long.String())
	if err != nil {
		t.Fatal(err)
	}
	cm := ConfigMap(owner("one"), "guestbook-one-plan", p)
	size := 0
	for k, v := range cm.Data {
		size += len(k) + len(v)
		if !utf8.ValidString(v) {
			t.Errorf("%s is not text", k)
		}
	}
	if size > MaxSize || size < MaxSize-200 {
		t.Errorf("%d bytes", size)
	}
	if !strings.Contains(cm.Data[KeyDiff], "\n# CUT: ") || cm.Data[KeyAdded] != "5000" {
		t.Errorf("%s added; ends with %q", cm.Data[KeyAdded], cm.Data[KeyDiff][len(cm.Data[KeyDiff])-200:])
	}
	line := ConfigMap(owner("one"), "n", Plan{Diff: strings.Repeat("ä", MaxSize)})
	if !utf8.ValidString(line.Data[KeyDiff]) || !strings.Contains(line.Data[KeyDiff], "# CUT: ") {
		t.Error("a line that is too long is not cut well")
	}
}

func owner(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps.chartgate.dev", Version: "v1alpha1", Kind: "Guestbook"})
	o.SetNamespace("ns")
	o.SetName(name)
	o.SetUID("uid-of-" + "one")
	return o
}

func TestNamesFitAndTellKindsApart(t *testing.T) {
	guestbook := schema.GroupKind{Group: "apps.chartgate.dev", Kind: "Guestbook"}
	if got := Names(guestbook, "one"); got[0] != "guestbook-one-plan" || len(got) != 2 || got[1] == got[0] {
		t.Errorf("names %v", got)
	}
	if a, b := Names(guestbook, "one"), Names(schema.GroupKind{Group: "other.dev", Kind: "Guestbook"}, "one"); a[1] == b[1] {
		t.Errorf("two groups share %s", a[1])
	}
	for _, n := range []int{1, 230, 238, 239, 240, 253} {
		for _, name := range Names(guestbook, strings.Repeat("a", n)) {
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
				t.Errorf("%d: %s: %v", n, name, problems)
			}
		}
	}
	if a, b := Names(guestbook, strings.Repeat("a", 252)+"b"), Names(guestbook, strings.Repeat("a", 252)+"c"); a[0] == b[0] {
		t.Error("two long names share a plan")
	}
}

func TestOnlyThePlanOfThisOwnerIsOurs(t *testing.T) {
	one := owner("one")
	mine := ConfigMap(one, "n", Plan{})
	if !Ours(mine, one) || !Same(mine, ConfigMap(one, "n", Plan{})) || Same(mine, ConfigMap(one, "n", Plan{Digest: "x"})) {
		t.Error("a plan of ours is not recognized")
	}
	again := owner("one")
	again.SetUID("another")
	for name, cm := range map[string]*corev1.ConfigMap{
		"nobody's":                            {},
		"only labeled":                        {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{Label: LabelValue}}},
		"only owned":                          {ObjectMeta: metav1.ObjectMeta{OwnerReferences: mine.OwnerReferences}},
		"of a resource that was created anew": ConfigMap(again, "n", Plan{}),
	} {
		if Ours(cm, one) {
			t.Errorf("%s: taken for ours", name)
		}
	}
}

func TestNamedSecretsDoNotShow(t *testing.T) {
	const manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  url: postgres://admin:WORD@db\n  open: plain\n"
	p, err := New("d", strings.ReplaceAll(manifest, "WORD", "first-canary"), strings.ReplaceAll(manifest, "WORD", "second-canary"), "first-canary", "second-canary")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(p.Diff, "canary") || p.Changed != 1 {
		t.Errorf("%d changed:\n%s", p.Changed, p.Diff)
	}
}
