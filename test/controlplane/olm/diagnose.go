// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shownEvents is how many of the latest events a diagnosis has.
const shownEvents = 15

// explain adds to an error what a namespace's objects say.
func (o *OLM) explain(ctx context.Context, err error, namespace string) error {
	if err == nil {
		return nil
	}
	// ctx is mostly at its end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	return fmt.Errorf("%w\n%s", err, o.Diagnose(ctx, namespace))
}

// Diagnose tells in lines of text how far OLM is in a namespace: what its
// objects and the Pods say, and the latest events.
func (o *OLM) Diagnose(ctx context.Context, namespace string) string {
	var report []string
	for _, part := range []struct {
		of    string
		lines func(context.Context, string) ([]string, error)
	}{
		{"CatalogSources", o.diagnoseCatalogs},
		{"OperatorGroups", o.diagnoseGroups},
		{"Subscriptions", o.diagnoseSubscriptions},
		{"InstallPlans", o.diagnosePlans},
		{"ClusterServiceVersions", o.diagnoseCSVs},
		{"Pods", o.diagnosePods},
		{"events", o.diagnoseEvents},
	} {
		lines, err := part.lines(ctx, namespace)
		if err != nil {
			lines = append(lines, err.Error())
		}
		if len(lines) > 0 {
			report = append(report, fmt.Sprintf("%s in %s:", part.of, namespace))
		}
		for _, line := range lines {
			report = append(report, "  "+line)
		}
	}
	return strings.Join(report, "\n")
}

func (o *OLM) diagnoseCatalogs(ctx context.Context, namespace string) ([]string, error) {
	var lines []string
	objects, err := o.list(ctx, catalogSourceKind, namespace)
	for _, object := range objects {
		lines = append(lines, fmt.Sprintf("%s: %s, %s %s", object.GetName(),
			text(object.Object, "status", "connectionState", "lastObservedState"),
			text(object.Object, "status", "reason"), text(object.Object, "status", "message")))
	}
	return lines, err
}

func (o *OLM) diagnoseGroups(ctx context.Context, namespace string) ([]string, error) {
	var lines []string
	objects, err := o.list(ctx, operatorGroupKind, namespace)
	for _, object := range objects {
		targets, _, _ := unstructured.NestedStringSlice(object.Object, "status", "namespaces")
		lines = append(lines, fmt.Sprintf("%s: namespaces %q", object.GetName(), targets))
		lines = append(lines, conditions(object.Object)...)
	}
	return lines, err
}

func (o *OLM) diagnoseSubscriptions(ctx context.Context, namespace string) ([]string, error) {
	var lines []string
	objects, err := o.list(ctx, subscriptionKind, namespace)
	for _, object := range objects {
		status := func(field string) string { return text(object.Object, "status", field) }
		lines = append(lines, fmt.Sprintf("%s: %s, installed %q, current %q", object.GetName(),
			cmp.Or(status("state"), "no state"), status("installedCSV"), status("currentCSV")))
		lines = append(lines, conditions(object.Object)...)
	}
	return lines, err
}

func (o *OLM) diagnosePlans(ctx context.Context, namespace string) ([]string, error) {
	var lines []string
	objects, err := o.list(ctx, installPlanKind, namespace)
	for _, object := range objects {
		approved, _, _ := unstructured.NestedBool(object.Object, "spec", "approved")
		names, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "clusterServiceVersionNames")
		lines = append(lines, fmt.Sprintf("%s for %q: %s, approved: %t %s", object.GetName(), names,
			text(object.Object, "status", "phase"), approved, text(object.Object, "status", "message")))
		lines = append(lines, conditions(object.Object)...)
		for _, lookup := range entries(object.Object, "status", "bundleLookups") {
			for _, condition := range entries(lookup, "conditions") {
				lines = append(lines, fmt.Sprintf("  bundle %v: %s", lookup["identifier"], conditionLine(condition)))
			}
		}
	}
	return lines, err
}

func (o *OLM) diagnoseCSVs(ctx context.Context, namespace string) ([]string, error) {
	var lines []string
	objects, err := o.list(ctx, csvKind, namespace)
	for _, object := range objects {
		lines = append(lines, fmt.Sprintf("%s: %s, %s: %s", object.GetName(), text(object.Object, "status", "phase"),
			text(object.Object, "status", "reason"), text(object.Object, "status", "message")))
		for _, requirement := range entries(object.Object, "status", "requirementStatus") {
			if requirement["status"] != "Present" {
				lines = append(lines, fmt.Sprintf("  needs %v %v: %v %v", requirement["kind"], requirement["name"],
					requirement["status"], requirement["message"]))
			}
		}
	}
	return lines, err
}

// conditions returns a line for each of an object's conditions.
func conditions(object map[string]any) []string {
	var lines []string
	for _, condition := range entries(object, "status", "conditions") {
		lines = append(lines, "  "+conditionLine(condition))
	}
	return lines
}

func conditionLine(condition map[string]any) string {
	return strings.TrimSpace(fmt.Sprintf("%s=%s %s %s",
		text(condition, "type"), text(condition, "status"), text(condition, "reason"), text(condition, "message")))
}

func (o *OLM) diagnosePods(ctx context.Context, namespace string) ([]string, error) {
	var pods corev1.PodList
	if err := o.client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list the Pods in %s: %w", namespace, err)
	}
	var lines []string
	for _, pod := range pods.Items {
		lines = append(lines, fmt.Sprintf("%s: %s %s", pod.Name, pod.Status.Phase, pod.Status.Message))
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status != corev1.ConditionTrue {
				lines = append(lines, "  not scheduled: "+condition.Message)
			}
		}
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if line := containerLine(container); line != "" {
				lines = append(lines, "  "+line)
			}
		}
	}
	return lines, nil
}

// containerLine describes a container that doesn't just run.
func containerLine(container corev1.ContainerStatus) string {
	state, last := container.State, container.LastTerminationState
	line := ""
	switch {
	case state.Waiting != nil:
		line = fmt.Sprintf("waits, %s: %s", state.Waiting.Reason, state.Waiting.Message)
	case state.Terminated != nil:
		line = fmt.Sprintf("ended with %d, %s: %s", state.Terminated.ExitCode, state.Terminated.Reason, state.Terminated.Message)
	case !container.Ready:
		line = "is not ready"
	}
	if last.Terminated != nil {
		line += fmt.Sprintf(" (restart %d after it ended with %d: %s)",
			container.RestartCount, last.Terminated.ExitCode, strings.TrimSpace(last.Terminated.Message))
	}
	if line == "" {
		return ""
	}
	return container.Name + " " + strings.TrimSpace(line)
}

func (o *OLM) diagnoseEvents(ctx context.Context, namespace string) ([]string, error) {
	var events corev1.EventList
	if err := o.client.List(ctx, &events, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list the events in %s: %w", namespace, err)
	}
	when := func(event corev1.Event) time.Time {
		return cmp.Or(event.LastTimestamp.Time, event.EventTime.Time, event.CreationTimestamp.Time)
	}
	slices.SortFunc(events.Items, func(a, b corev1.Event) int { return when(a).Compare(when(b)) })
	var lines []string
	for _, event := range events.Items[max(0, len(events.Items)-shownEvents):] {
		lines = append(lines, fmt.Sprintf("%s %s %s/%s: %s: %s", when(event).UTC().Format(time.TimeOnly), event.Type,
			event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message))
	}
	return lines, nil
}
