// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/test/harness"
)

// jobChart has a hook Job that is suspended until somebody lets it go.
func jobChart(event string) map[string]string {
	return with(map[string]string{"templates/job.yaml": `apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-hook
  annotations: {helm.sh/hook: "` + event + `", helm.sh/hook-delete-policy: "before-hook-creation,hook-succeeded"}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers: [{name: app, image: "registry.test/app:1"}]
`})
}

// completeJob lets the Job go, and waits until it is through.
func completeJob(t *testing.T, e *harness.Env, name string) {
	t.Helper()
	jobs, started := e.Kube.BatchV1().Jobs(e.Namespace), false
	e.Eventually("Job "+name+" complete", func() error {
		job, err := jobs.Patch(e.Ctx, name, types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
		if apierrors.IsNotFound(err) && started {
			return nil // deleted as its policy says
		}
		if err != nil {
			return err
		}
		started = true
		for _, c := range job.Status.Conditions {
			if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("%+v", job.Status)
	})
}

func TestHookJobsAreWaitedForAndCleanedUp(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", jobChart("pre-install,post-upgrade,pre-delete")))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{"replicas": int64(0)})
	e.WaitObject("batch/v1", "Job", "one-hook", nil)
	e.WantHistory("one", "1:pending-install")
	if e.Object("v1", "ConfigMap", "one") != nil {
		t.Error("objects were made before the hook was through")
	}
	completeJob(t, e, "one-hook")
	k.WaitReady("one")
	e.WaitObjectGone("batch/v1", "Job", "one-hook")

	k.Patch("one", `{"spec":{"message":"second"}}`)
	completeJob(t, e, "one-hook")
	k.WaitReady("one")
	e.WantHistory("one", "1:superseded 2:deployed")

	e.Kubectl("delete", strings.ToLower(k.Kind)+"."+k.Group, "one", "-n", e.Namespace, "--wait=false")
	completeJob(t, e, "one-hook")
	k.WaitGone("one")
	e.WantHistory("one", "")
}

func TestAHookThatNeverEndsTimesOutAndBlocksNobody(t *testing.T) {
	e := sideBySide(t)
	stuck := e.GatedKind(e.Chart("stuck", jobChart("pre-install")))
	m := e.StartManager(harness.ManagerOptions{Watches: harness.Watches(stuck), Args: []string{"--reconcile-period", "1h", "--max-concurrent-reconciles", "1"}})
	stuck.Create("one", map[string]any{"replicas": int64(0), "release": map[string]any{"timeout": "2s", "retries": int64(0)}})
	st := stuck.WaitCondition("one", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRetriesExhausted)
	if !strings.Contains(st.Message, "Job") || !strings.Contains(st.Message, "2s") {
		t.Errorf("the message does not say what took too long: %s", st.Message)
	}
	e.WantHistory("one", "")
	stuck.Create("two", map[string]any{"replicas": int64(0), "release": map[string]any{"disableHooks": true}})
	stuck.WaitReady("two")

	stuck.Create("three", map[string]any{"replicas": int64(0), "release": map[string]any{"timeout": "10m"}})
	e.WaitObject("batch/v1", "Job", "three-hook", nil)
	start := time.Now()
	m.Stop()
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the operator took %s to stop in the middle of a hook", took)
	}
	m.Start() // takes the Job away with the half install, and makes it anew
	e.Eventually("three is installed", func() error {
		_, err := e.Kube.BatchV1().Jobs(e.Namespace).Patch(e.Ctx, "three-hook", types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if got := e.Statuses("three"); got != "1:deployed" {
			return fmt.Errorf("history is %q", got)
		}
		return nil
	})
	stuck.WaitReady("three")
	e.WantHistory("three", "1:deployed")
}

func TestAHookThatFailsAnUpgradeIsRolledBack(t *testing.T) {
	e := sideBySide(t)
	k := e.GatedKind(e.Chart("small", with(map[string]string{"templates/hook.yaml": `{{- if eq .Values.message "bad" }}
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-hook
  annotations: {helm.sh/hook: post-upgrade}
spec:
  nodeSelector: {none: such}
  containers: [{name: app, image: "registry.test/app:1"}]
{{- end }}
`})))
	e.StartManager(harness.ManagerOptions{Watches: harness.Watches(k), Args: []string{"--reconcile-period", "1h"}})
	k.Create("one", map[string]any{"replicas": int64(0), "message": "good", "release": map[string]any{"retries": int64(0)}})
	k.WaitReady("one")
	k.Patch("one", `{"spec":{"message":"bad"}}`)
	e.WaitObject("v1", "Pod", "one-hook", nil)
	e.Eventually("fail the Pod", func() error {
		pod, err := e.Kube.CoreV1().Pods(e.Namespace).Get(e.Ctx, "one-hook", metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.Phase, pod.Status.Message = corev1.PodFailed, "out of luck"
		_, err = e.Kube.CoreV1().Pods(e.Namespace).UpdateStatus(e.Ctx, pod, metav1.UpdateOptions{})
		return err
	})
	st := k.WaitCondition("one", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRetriesExhausted)
	if !strings.Contains(st.Message, "out of luck") || !strings.Contains(st.Message, "rolled back to revision 1") {
		t.Errorf("message: %s", st.Message)
	}
	e.WantHistory("one", "1:superseded 2:failed 3:deployed")
	message(t, e, "one", "good")
}
