// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/app"
	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/harness"
)

// with returns the files of smallChart with others put over them.
func with(files map[string]string) map[string]string {
	out := maps.Clone(smallChart)
	maps.Copy(out, files)
	return out
}

func TestManagerRefusesToStart(t *testing.T) {
	e := sideBySide(t)
	chart := e.Chart("small", smallChart)
	clash := e.Chart("clash", with(map[string]string{"values.yaml": "gates: []\nreplicas: 1\nmessage: x\nbig: 1\n"}))
	broken := e.Chart("broken", map[string]string{"Chart.yaml": "apiVersion: v2\nname: [\n"})
	watch := func(chart string) string {
		return "- group: apps.chartgate.dev\n  version: v1alpha1\n  kind: Guestbook\n  chart: " + chart + "\n"
	}
	cases := map[string]struct {
		watches string
		config  *rest.Config
		want    []string
	}{
		"a field with a typo":           {watches: watch(chart) + "  reconcilPeriod: 1m\n", want: []string{"watches.yaml:5:", "reconcilPeriod", `did you mean "reconcilePeriod"`}},
		"a watches file that is empty":  {watches: "\n", want: []string{"watches.yaml", "no watches"}},
		"a chart that does not exist":   {watches: watch("/nowhere/chart"), want: []string{"watches.yaml:1:", "/nowhere/chart", "no such file"}},
		"a chart that is broken":        {watches: watch(broken), want: []string{"watches.yaml:1:", "broken", "Chart.yaml"}},
		"values that clash with gates":  {watches: watch(clash), want: []string{"watches.yaml:1:", "gates", "valuesPath: spec.values"}},
		"an API server that is not up":  {watches: watch(chart), config: &rest.Config{Host: "https://127.0.0.1:1"}, want: []string{"API server at https://127.0.0.1:1 cannot be reached"}},
		"a gate type nobody knows":      {watches: watch(chart) + "  gates:\n  - name: g\n    type: Magic\n", want: []string{"watches.yaml:7:", "Magic"}},
		"a translator that isn't there": {watches: watch(chart) + "  translator: webap\n", want: []string{"watches.yaml:5:", "webap"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "watches.yaml")
			e.WriteFile(file, c.watches)
			config := c.config
			if config == nil {
				config = e.Config
			}
			var stderr bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			code := app.Run(ctx, config, []string{"--watches-file", file, "--metrics-bind-address", "0", "--health-probe-bind-address", "0"}, &stderr)
			if code == 0 {
				t.Error("it started")
			}
			out := strings.TrimSpace(stderr.String())
			if strings.Contains(out, "\n") {
				t.Errorf("more than one line:\n%s", out)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("output lacks %q: %s", want, out)
				}
			}
		})
	}
}

const testSchema = `{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "properties": {"port": {"type": "integer"}, "name": {"type": "string"}},
  "if": {"properties": {"name": {"const": "web"}}, "required": ["name"]},
  "then": {"required": ["port"]}
}`

func TestBadValuesStallUntilTheSpecIsMended(t *testing.T) {
	e := sideBySide(t)
	k := e.OpenKind(e.Chart("picky", with(map[string]string{
		"values.schema.json": testSchema,
		"templates/more.yaml": `{{- if .Values.boom }}{{ fail "the port is taken" }}{{ end }}
{{- if .Values.garbage }}
apiVersion: v1
kind: ConfigMap
metadata: {name: x
{{- end }}
`,
	})))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	cases := map[string]struct {
		spec   map[string]any
		reason string
		want   string
		mend   string
	}{
		"schema":   {map[string]any{"name": "web"}, v1alpha1.ReasonInvalidValues, "port", `{"spec":{"port":80}}`},
		"template": {map[string]any{"boom": true}, v1alpha1.ReasonRenderFailed, "the port is taken", `{"spec":{"boom":false}}`},
		"yaml":     {map[string]any{"garbage": true}, v1alpha1.ReasonRenderFailed, "more.yaml", `{"spec":{"garbage":false}}`},
		"invalid":  {map[string]any{"replicas": int64(-1)}, v1alpha1.ReasonInvalidObject, "spec.replicas", `{"spec":{"replicas":1}}`},
		"unknown":  {map[string]any{"replicas": "two"}, v1alpha1.ReasonInvalidObject, "replicas", `{"spec":{"replicas":2}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k.Create(name, c.spec)
			st := k.WaitCondition(name, v1alpha1.ConditionStalled, metav1.ConditionTrue, c.reason)
			if !strings.Contains(st.Message, c.want) || st.Phase != v1alpha1.PhaseDeploymentFailed {
				t.Errorf("phase %s, message %q; want %q in it", st.Phase, st.Message, c.want)
			}
			for kind, apiVersion := range map[string]string{"ConfigMap": "v1", "Service": "v1", "Deployment": "apps/v1"} {
				e.WaitObjectGone(apiVersion, kind, name)
			}
			e.WantHistory(name, "")
			k.Patch(name, c.mend)
			st = k.WaitReady(name)
			if st.Failures != 0 || st.Pending != nil {
				t.Errorf("after mending: %+v", st)
			}
			e.WantHistory(name, "1:deployed")
		})
	}
}

func TestBadValuesOfAnUpgradeLeaveTheReleaseAlone(t *testing.T) {
	e := sideBySide(t)
	k := e.OpenKind(e.Chart("small", smallChart))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{"message": "good"})
	k.WaitReady("one")
	k.Patch("one", `{"spec":{"message":"bad","replicas":-1}}`)
	k.WaitCondition("one", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidObject)
	e.WantHistory("one", "1:superseded 2:failed 3:deployed")
	if got := data(e.Object("v1", "ConfigMap", "one"), "message"); got != "good" {
		t.Errorf("message after the rollback is %q", got)
	}
	if err := e.Client.Delete(e.Ctx, e.Object("v1", "Service", "one")); err != nil {
		t.Fatal(err)
	}
	e.WaitObject("v1", "Service", "one", nil) // what is released is kept up
	k.Patch("one", `{"spec":{"message":"better","replicas":2}}`)
	if st := k.WaitReady("one"); st.Revision != 4 {
		t.Errorf("revision %d after mending", st.Revision)
		for _, r := range e.History("one") {
			t.Logf("%d %s %s", r.Version, r.Info.Status, r.Info.Description)
		}
	}
}

func TestStalledResourceMakesNoRequests(t *testing.T) {
	e := sideBySide(t)
	k := e.OpenKind(e.Chart("small", with(map[string]string{"templates/fail.yaml": `{{ fail "no" }}`})))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", nil)
	k.WaitCondition("one", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRenderFailed)
	k.Create("two", nil) // by the time it is through, the first would have been tried again
	k.WaitCondition("two", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRenderFailed)
	start := time.Now()
	e.Never("requests of a stalled resource", 4*time.Second, func() error {
		events, err := e.Cluster.AuditEvents(e.Ctx, controlplane.ByUserAgent("chartgate"), controlplane.ByNamespace(e.Namespace), controlplane.Since(start))
		if err != nil {
			return err
		}
		for _, ev := range events {
			if ev.Verb != "watch" {
				return fmt.Errorf("%s %s", ev.Verb, ev.RequestURI)
			}
		}
		return nil
	})
}

func TestBadInputBetweenDoesNotGiveUpAHeldChange(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", smallChart))
	k.Extra = "  valuesPath: spec.values\n"
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: onlyWatches})
	k.Create("one", map[string]any{
		"values": map[string]any{"message": "first"},
		"gates":  []any{gateOf("settings", v1alpha1.GateConfigMapExists, nil)},
	})
	held := waitHeld(k, "one").Pending.Digest
	k.Patch("one", `{"spec":{"values":"none"}}`)
	st := k.WaitCondition("one", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidValues)
	if st.Pending != nil {
		t.Errorf("pending: %+v", st.Pending)
	}
	k.Patch("one", `{"spec":{"values":{"message":"first"}}}`)
	if again := waitHeld(k, "one").Pending.Digest; again != held {
		t.Errorf("the change held is %s, was %s", again, held)
	}
	createConfigMap(e, "settings", nil)
	k.WaitReady("one")
	e.WantHistory("one", "1:deployed")
}
